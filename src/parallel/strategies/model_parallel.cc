// Model and data parallelism together: a grid of ranks whose columns hold one replica, its layers striped by rows, and
// whose rows train data-parallel, by synchronous SGD.
//
// Exchanged: within a replica as striped_network.h says; between replicas each rank's gradients, 4·P/stripes bytes per
// step, which are averaged by frames. When: every minibatch. Staleness: none. Ranks r·stripes … r·stripes + stripes − 1
// make up replica r, so that neighbours talk most.
// Rates: that of one replica's minibatch; a step over k replicas uses k minibatches, so raise it as the experiment says
// (rate-scaling). Memory: passes and optimiser states take 1/stripes of the weights' rows on each rank; the whole model
// stands in the trainer's memory for evaluation and is collected at epoch ends.
// Determinism: sums over ranks in fixed trees; against one rank, sums are ordered otherwise.
// Source: Krizhevsky, arXiv 1404.5997, 2014; Seide et al., ICASSP 2014; algorithms reference 1.20.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/options.h"
#include "parallel/rate_scaling.h"
#include "parallel/strategy.h"
#include "parallel/striped_network.h"

namespace antiphon::parallel {
namespace {

constexpr uint64_t kLinkSeed = 0x6c696e6b;
constexpr int kReplicaGroup = 1;
constexpr int kStripeGroup = 2;

struct ModelParallelOptions : RateScalingOptions {
  int stripes = 0;
  int sparse_links = -1;
  template <class V>
  void Visit(V& v) {
    RateScalingOptions::Visit(v);
    v("stripes", stripes, Range{0, 4096}, "ranks that hold one replica; 0: all workers");
    v("sparse-links", sparse_links, Range{-1, 1 << 20},
      "units of each other rank that a unit sees; -1: all. Weights of the other links stay 0");
  }
};

std::vector<int> Ranks(int first, int step, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

int Stripes(const Config& config, const ModelParallelOptions& options, int workers) {
  const int stripes = options.stripes == 0 ? workers : options.stripes;
  if (workers % stripes != 0) {
    Throw<UsageError>("{}: {} workers cannot be divided into replicas of {} stripes", config.Where("stripes"), workers,
                      stripes);
  }
  return stripes;
}

class ModelParallel : public Strategy {
 public:
  ModelParallel(const Config& config, const Replica& replica)
      : Strategy(replica),
        options_(ReadOptions<ModelParallelOptions>(config, kCommonStrategyKeys)),
        stripes_(Stripes(config, options_, comm().world_size())),
        group_(comm(), Ranks(comm().rank() / stripes_ * stripes_, 1, stripes_), kReplicaGroup),
        twins_(comm(), Ranks(comm().rank() % stripes_, stripes_, comm().world_size() / stripes_), kStripeGroup),
        scaling_(options_, twins_.size(), plan()) {
    if (!plain()) {
      striped_ = std::make_unique<StripedNetwork>(network(), group_, replica.optimizer_config, options_.sparse_links,
                                                  kLinkSeed);
      for (size_t i = 0; i < striped_->num_stripes(); ++i) {
        gradients_.emplace_back(twins_.size() > 1 ? striped_->stripe(i).network().num_values() : 0, 0.0f);
      }
      if (twins_.size() > 1) common_.assign(network().num_values(), 0.0f);
    }
  }

  DataShare data_share() const override { return {comm().rank() / stripes_, comm().world_size() / stripes_, stripes_}; }

  void Start() override {
    if (plain()) return;
    // Every rank has the right values of its own rows, which rank 0 has not when a run goes on in the middle of an
    // epoch.
    striped_->ApplyMasks();
    AfterEpoch();
  }

  StepOutput Step(const StepInput& input) override {
    if (plain()) return Strategy::Step(input);
    StepOutput output;
    const MatrixView logits = striped_->Forward(input.context, input.features, workspace());
    output.loss = nn::SoftmaxCrossEntropy(logits, input.targets, logits);
    const double rate = input.learning_rate * scaling_.Factor(step_++);
    if (twins_.size() == 1) {
      StepAlone(input, logits, rate, output.report);
    } else {
      StepTogether(input, logits, rate, output);
    }
    striped_->ApplyMasks();
    collected_ = false;
    return output;
  }

  void AfterEpoch() override {
    if (plain()) return;
    Complete(network().values());
    collected_ = true;
    network().MarkChanged();
    for (size_t i = 0; i < striped_->num_stripes(); ++i) striped_->stripe(i).network().MarkChanged();
  }
  void Complete(std::span<float> values) override {
    if (!plain() && !values.empty()) striped_->Share(values);
  }
  void ResetState() override {
    if (plain()) return;
    for (size_t i = 0; i < striped_->num_stripes(); ++i) {
      striped_->stripe(i).optimizer().ResetState();
      striped_->stripe(i).network().MarkChanged();
    }
  }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    const std::vector<int64_t> numbers = {step_, collected_ ? 1 : 0};
    writer.Add(prefix + ".numbers", std::span<const int64_t>(numbers));
    for (size_t i = 0; striped_ && i < striped_->num_stripes(); ++i) {
      striped_->stripe(i).optimizer().SaveState(writer, fmt::format("{}.stripe.{}", prefix, i));
    }
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    const std::vector<int64_t> numbers = reader.ReadInts(prefix + ".numbers");
    step_ = numbers.at(0);
    collected_ = numbers.at(1) != 0;
    for (size_t i = 0; striped_ && i < striped_->num_stripes(); ++i) {
      striped_->stripe(i).optimizer().LoadState(reader, fmt::format("{}.stripe.{}", prefix, i));
      striped_->stripe(i).network().MarkChanged();
    }
  }

  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override {
    const std::vector<int64_t> numbers = ranks[0].ReadInts(prefix + ".numbers");
    if (numbers.at(1) == 0) {
      Throw<InputError>(
          "{} ranks stopped in the middle of an epoch, each with rows of its own; only as many can go on from there, "
          "while checkpoints at the ends of epochs fit any number",
          ranks.size());
    }
    // Momenta belong to the stripes of then.
    step_ = numbers.at(0);
    optimizer().ResetState();
  }

  std::vector<std::string> Describe() const override {
    std::vector<std::string> lines = {
        fmt::format("model-parallel: {} replica(s) of {} stripe(s), {} of {} parameters "
                    "trained by this rank",
                    twins_.size(), stripes_, plain() ? network().num_parameters() : striped_->num_own_parameters(),
                    network().num_parameters())};
    if (twins_.size() > 1) lines.push_back(scaling_.Describe());
    if (options_.sparse_links >= 0) lines.push_back(fmt::format("{} links to each other rank", options_.sparse_links));
    return lines;
  }

 private:
  bool plain() const { return comm().world_size() == 1; }

  // One replica: updates go straight into the weights.
  void StepAlone(const StepInput& input, ConstMatrixView derivative, double rate, optim::StepReport& report) {
    optimizer().BeginStep(rate);
    for (size_t i = 0; i < striped_->num_stripes(); ++i) striped_->stripe(i).optimizer().BeginStep(rate);
    striped_->Backward(
        input.context, derivative, workspace(),
        [this](size_t i) -> nn::GradientSink& { return striped_->stripe(i).optimizer(); }, optimizer());
    EndStep(report);
  }

  void StepTogether(const StepInput& input, ConstMatrixView derivative, double rate, StepOutput& output) {
    std::vector<nn::DenseGradientSink> sinks;
    for (std::vector<float>& g : gradients_) {
      std::fill(g.begin(), g.end(), 0.0f);
      sinks.emplace_back(g);
    }
    std::fill(common_.begin(), common_.end(), 0.0f);
    nn::DenseGradientSink common(common_);
    striped_->Backward(
        input.context, derivative, workspace(), [&](size_t i) -> nn::GradientSink& { return sinks[i]; }, common);
    const double begin = comm().Now();
    double weight = FrameWeight(input);
    const auto mine = static_cast<float>(weight);
    twins_.AllReduce(std::span<double>(&weight, 1));
    const auto share = [&](std::vector<float>& g) {
      for (float& v : g) v *= mine;
      twins_.AllReduce(std::span<float>(g));
      const auto scale = static_cast<float>(weight > 0 ? 1 / weight : 0.0);
      for (float& v : g) v *= scale;
    };
    for (std::vector<float>& g : gradients_) share(g);
    share(common_);
    output.communication_seconds = comm().Now() - begin;
    optimizer().BeginStep(rate);
    for (size_t i = 0; i < network().num_layers(); ++i) TakeCommon(i);
    for (size_t i = 0; i < striped_->num_stripes(); ++i) {
      AffineStripe& stripe = striped_->stripe(i);
      stripe.optimizer().BeginStep(rate);
      stripe.optimizer().TakeAll(stripe.network(), gradients_[i]);
    }
    EndStep(output.report);
  }

  // Gradients of a layer that all ranks hold.
  void TakeCommon(size_t layer) {
    for (size_t s = 0; s < striped_->num_stripes(); ++s) {
      if (striped_->stripe(s).layer() == layer) return;
    }
    for (nn::Parameter* p : network().layer(layer).parameters()) {
      if (p->learning_rate_factor == 0) continue;
      optimizer().TakeDense(*p, ConstMatrixView(common_.data() + p->offset, p->value.rows(), p->value.cols()));
    }
  }

  void EndStep(optim::StepReport& report) {
    report = optimizer().EndStep();
    for (size_t i = 0; i < striped_->num_stripes(); ++i) {
      const optim::StepReport part = striped_->stripe(i).optimizer().EndStep();
      report.max_change_scale = std::min(report.max_change_scale, part.max_change_scale);
    }
  }

  ModelParallelOptions options_;
  int stripes_;
  RankGroup group_;  // this replica
  RankGroup twins_;  // ranks with the same stripe in all replicas
  RateScaling scaling_;
  std::unique_ptr<StripedNetwork> striped_;  // null for one worker
  int64_t step_ = 0;
  bool collected_ = true;                      // all ranks hold the whole model
  std::vector<std::vector<float>> gradients_;  // by stripe, with several replicas
  std::vector<float> common_;
};

REGISTER_COMPONENT(StrategyRegistry, "model-parallel", [](const Config& config, const Replica& replica) {
  return std::make_unique<ModelParallel>(config, replica);
});

}  // namespace
}  // namespace antiphon::parallel
