// Synchronous SGD: all workers' gradients are summed in every step, and all take the same step.
//
// Exchanged: gradients, layer by layer from the top while the lower layers still compute
// (parallel/gradient_exchange.h). When: every `accumulate` minibatches. Bytes per exchange and rank: 2·(N − 1)/N · 4 ·
// parameters, less with a codec. Staleness: none. Determinism: replicas stay equal to the bit, and do not depend on the
// workers' placement. One worker without codec and accumulation is plain training. The gradient is the mean over all
// frames of a step, so that N workers with B frames are one with N·B, to rounding; the learning rate grows accordingly
// (parallel/rate_scaling.h). An optimiser that works on gradients' factors (natural-gradient) preconditions each
// worker's own, with covariances of its own, before they are summed. Source: Goyal et al., arXiv 1706.02677, 2017;
// codecs: their own files.
//
// With `divide`, each worker keeps the optimiser's state of its rows alone (parallel/value_share.h), takes the step for
// these, and sends their new values to all, in fp32 and after the backward pass; with "gradients" it keeps no more of
// the sum either. Every bit of the model is as without. With `sync-batch-norm`, layers of batch normalisation take the
// statistics of all workers' frames of a step of theirs, so that this too is one worker with N·B frames: one sum more
// of 2·dim + 1 doubles in the forward pass and of 2·dim in the backward pass of each such layer.
//
// When a worker is lost in an exchange of gradients, those that are left sum theirs again and take the step with these
// frames alone, at the rate of fewer workers; if all had the whole sum already, they take the step along that. Not with
// `divide`, `sync-batch-norm` or a codec that holds something back: what the lost worker kept is nobody else's.
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "nn/rank_sums.h"
#include "parallel/gradient_exchange.h"
#include "parallel/rate_scaling.h"
#include "parallel/value_share.h"

namespace antiphon::parallel {
namespace {

struct SsgdOptions {
  RateScalingOptions scaling;
  int accumulate = 1;
  double codec_start_epochs = 0;
  std::string divide = "nothing";
  bool sync_batch_norm = false;
  template <class V>
  void Visit(V& v) {
    scaling.Visit(v);
    v("accumulate", accumulate, Range{1, 100000}, "minibatches of a worker per step of the model");
    v("codec-start-epochs", codec_start_epochs, Range{0, 1e6}, "epochs in fp32 before the codec takes over");
    v(kDivideKey, divide, OneOf{{"nothing", "optimizer", "gradients"}},
      "what each worker keeps an N-th of: the optimiser's state, or that and the gradients; the model is the same");
    v("sync-batch-norm", sync_batch_norm, "batch normalisation by the statistics of all workers' minibatches together");
  }
};

std::vector<std::string> OtherKeys() {
  std::vector<std::string> keys = kCommonStrategyKeys;
  keys.emplace_back("codec");
  return keys;
}

// Of the frames of all workers' minibatches.
class SumsOfWorkers : public nn::RankSums {
 public:
  explicit SumsOfWorkers(comm::Communicator& comm) : comm_(comm) {}
  void Sum(std::span<double> values) override {
    const double begin = comm_.Now();
    comm_.AllReduce(values);
    seconds_ += comm_.Now() - begin;
  }
  double TakeSeconds() { return std::exchange(seconds_, 0.0); }

 private:
  comm::Communicator& comm_;
  double seconds_ = 0;
};

class Ssgd : public Strategy, public Checkpointable, public SurvivesLosses {
 public:
  Ssgd(const Config& config, const Replica& replica)
      : Strategy(replica),
        options_(ReadOptions<SsgdOptions>(config, OtherKeys())),
        scaling_(options_.scaling, replica.comm->world_size() * options_.accumulate, replica.plan) {
    const int64_t steps = replica.plan.steps_per_epoch;
    if (steps > 0 && options_.accumulate > steps * std::max<int64_t>(1, replica.plan.epochs)) {
      Throw<UsageError>("accumulate = {} minibatches, but a worker takes {} in the whole run", options_.accumulate,
                        steps * std::max<int64_t>(1, replica.plan.epochs));
    }
    const Config codec = config.Table("codec");
    const bool lossy = codec.Text("type").value_or("fp32") != "fp32";
    if (replica.comm->world_size() == 1 && options_.accumulate == 1 && !lossy) {
      MakeCodec(codec);  // for its errors
      return;
    }
    const Divide divide = replica.share != nullptr ? ParseDivide(options_.divide) : Divide::kNothing;
    exchange_ = std::make_unique<GradientExchange>(
        codec, ExchangeOptions{options_.codec_start_epochs, options_.accumulate, divide}, replica);
    share_ = replica.share;
    if (options_.sync_batch_norm && replica.comm->world_size() > 1) batch_.emplace(*replica.comm);
  }

  StepOutput Step(const StepInput& input) override {
    StepInput mine = input;
    through_ = false;
    mine.learning_rate *= scaling_.Factor(steps_);
    ++steps_;
    if (!exchange_) return Strategy::Step(mine);
    if (batch_) mine.context.ranks = &*batch_;
    exchange_->BeginMinibatch(FrameWeight(input));
    mine.targets.total_weight = exchange_->total_weight();
    return Strategy::Step(mine);
  }

  nn::GradientSink& BeginStep(const StepInput& input) override {
    if (!exchange_) return Strategy::BeginStep(input);
    if (!optimizer().needs_factors()) return *exchange_;
    optimizer().PassFactorsTo(exchange_.get());
    return optimizer();
  }

  void AfterLayerBackward(size_t layer) override {
    if (exchange_) exchange_->LayerDone(layer);
  }

  optim::StepReport AfterStep(const StepInput& input) override {
    if (!exchange_) return Strategy::AfterStep(input);
    // The gradient is the mean over all frames: the fewer they are, the shorter the step. Of accumulated minibatches
    // the mean rate.
    last_rate_ = std::lerp(last_rate_, input.learning_rate * input.step_fullness, 1.0 / exchange_->minibatches());
    if (batch_) AddCommunication(batch_->TakeSeconds());
    return exchange_->complete() ? StepAlongSum() : optim::StepReport{};
  }

  // What was accumulated since the last exchange is not thrown away.
  void Finish() override {
    if (!exchange_ || exchange_->complete() || exchange_->minibatches() == 0) return;
    last_rate_ *= static_cast<double>(exchange_->minibatches()) / options_.accumulate;
    StepAlongSum();
  }

  Checkpointable* state() override { return this; }
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    writer.Add(prefix + ".steps", std::span<const int64_t>(&steps_, 1));
    writer.Add(prefix + ".last-rate", std::span<const double>(&last_rate_, 1));
    if (exchange_) exchange_->SaveState(writer, prefix + ".exchange");
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    steps_ = reader.ReadInts(prefix + ".steps").at(0);
    last_rate_ = reader.ReadDoubles(prefix + ".last-rate").at(0);
    if (exchange_) exchange_->LoadState(reader, prefix + ".exchange");
  }
  CommonState common_state() const override {
    if (!exchange_) return {};
    const bool same_optimizer = !optimizer().needs_factors() && share_ == nullptr;
    return {.values = true, .values_always = true, .optimizer = same_optimizer, .tensors = {}};
  }
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override {
    steps_ = StepsAsFar(ranks[0].ReadInts(prefix + ".steps").at(0), ranks.size(), comm().world_size());
    last_rate_ = ranks[0].ReadDoubles(prefix + ".last-rate").at(0);
    if (exchange_) exchange_->LoadFolded(ranks, prefix + ".exchange", steps_);
  }
  void ResetState() override {
    if (exchange_) exchange_->ResetState();
  }

  SurvivesLosses* survival() override { return this; }
  bool survives_losses() const override { return exchange_ && exchange_->keeps_nothing() && !batch_; }
  // Where all have gone through the exchange, the lost worker's gradients are in the step.
  int64_t steps_at_risk() const override {
    if (!exchange_ || through_) return 0;
    return exchange_->finishing() || !exchange_->complete() ? exchange_->minibatches() : 0;
  }
  // The rate is meant for those that are left, that of the step at hand too unless it has the lost worker's frames.
  int64_t AfterLoss(const Loss& loss) override {
    through_ = exchange_->finishing() && !loss.again;
    const double unscaled = steps_ > 0 ? last_rate_ / scaling_.Factor(steps_ - 1) : 0;
    scaling_ = RateScaling(options_.scaling, comm().world_size() * options_.accumulate, plan());
    if (!through_ && steps_ > 0) last_rate_ = unscaled * scaling_.Factor(steps_ - 1);
    return 0;
  }

  size_t copy_bytes() const override { return exchange_ ? exchange_->copy_bytes() : 0; }

  std::vector<std::string> Describe() const override {
    std::vector<std::string> lines = {
        fmt::format("{} workers sum their gradients every {} minibatch(es)", comm().world_size(), options_.accumulate),
        scaling_.Describe()};
    if (exchange_) lines.push_back(exchange_->Describe());
    if (batch_) lines.emplace_back("batch normalisation takes the frames of all workers together");
    if (share_ != nullptr) {
      lines.push_back(fmt::format("each worker keeps 1/{} of the optimiser's state{}", share_->ranks(),
                                  options_.divide == "gradients" ? " and of the gradients" : ""));
    }
    return lines;
  }

 private:
  optim::StepReport StepAlongSum() {
    const bool sound = exchange_->Finish();
    AddCommunication(exchange_->TakeSeconds());
    if (!sound) return {};
    optimizer().PassFactorsTo(nullptr);
    optimizer().BeginStep(last_rate_);
    if (share_ != nullptr) return StepOwnRows();
    optimizer().TakeAll(network(), exchange_->gradient());
    return optimizer().EndStep();
  }

  optim::StepReport StepOwnRows() {
    for (size_t i = network().parameters().size(); i-- > 0;) {
      nn::Parameter& own = share_->own(i);
      if (own.learning_rate_factor != 0) optimizer().TakeDense(own, exchange_->own_sum(i));
    }
    const optim::StepReport report = optimizer().EndStep();
    exchange_->GatherValues();
    AddCommunication(exchange_->TakeSeconds());
    return report;
  }

  SsgdOptions options_;
  RateScaling scaling_;
  std::unique_ptr<GradientExchange> exchange_;
  std::optional<SumsOfWorkers> batch_;
  const ValueShare* share_ = nullptr;  // if each worker steps its rows alone
  int64_t steps_ = 0;
  double last_rate_ = 0;
  bool through_ = false;  // whoever was lost in its exchange had a part in it
};

REGISTER_COMPONENT(StrategyRegistry, "ssgd", [](const Config& config, const Replica& replica) {
  return std::make_unique<Ssgd>(config, replica);
});

}  // namespace
}  // namespace antiphon::parallel
