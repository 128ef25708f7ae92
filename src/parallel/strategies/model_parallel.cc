// Model and data parallelism together: a grid of ranks whose columns hold one replica, its layers striped by rows, and
// whose rows train data-parallel, by synchronous SGD.
//
// Exchanged: within a replica as striped_network.h says, with `data-parallel-layers` as data_parallel_front.h does for
// the lowest of them; between replicas each rank's gradients, 4·P/stripes bytes per step (more where layers are held
// whole), which are averaged by frames. When: every minibatch. Staleness: none. Ranks r·stripes … r·stripes + stripes −
// 1 make up replica r, so that neighbours talk most. Rates: that of one replica's minibatch; a step over k replicas
// uses k minibatches, so raise it as the experiment says (rate-scaling). Memory: a rank holds its part of the weights,
// of the optimiser's state and, with several replicas, of the gradients, nothing of the others' at any time; layers
// that cannot be divided (recurrent, convolutional …) and data-parallel ones are held whole by each. max-change limits
// apply to a rank's part. Recurrent states go on from step to step; with several replicas each needs its own utterances
// (data.distribution = "shares"), or chunks that stand alone. Determinism: sums over ranks in fixed order; against one
// rank, sums are ordered otherwise. Source: Krizhevsky, arXiv 1404.5997, 2014; Seide et al., ICASSP 2014; algorithms
// reference 1.20.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/options.h"
#include "parallel/rate_scaling.h"
#include "parallel/strategy.h"
#include "parallel/striped_network.h"

namespace antiphon::parallel {
namespace {

constexpr int kReplicaGroup = 1;
constexpr int kStripeGroup = 2;

struct ModelParallelOptions : RateScalingOptions, StripesOptions {
  template <class V>
  void Visit(V& v) {
    RateScalingOptions::Visit(v);
    StripesOptions::Visit(v);
  }
};

class ModelParallel : public Strategy, public Checkpointable, public DividesTheModel {
 public:
  ModelParallel(const Config& config, const Replica& replica)
      : Strategy(replica),
        options_(ReadOptions<ModelParallelOptions>(config, kCommonStrategyKeys)),
        stripes_(StripesOf(config, comm().world_size())),
        group_(comm(), RanksFrom(comm().rank() / stripes_ * stripes_, 1, stripes_), kReplicaGroup),
        twins_(comm(), RanksFrom(comm().rank() % stripes_, stripes_, comm().world_size() / stripes_), kStripeGroup),
        scaling_(options_, twins_.size(), plan()) {
    if (stripes_ > 1) striped_.emplace(network(), RequireParts(), group_, options_);
    if (twins_.size() == 1) return;
    if (optimizer().needs_factors()) {
      Throw<UsageError>(
          "method 'model-parallel' sums the gradients of {} replicas, from which the natural gradient cannot be made: "
          "let all {} ranks hold one replica (stripes = {}), or take another optimiser, or method 'ssgd'",
          twins_.size(), comm().world_size(), comm().world_size());
    }
    gradients_.assign(network().num_values(), 0.0f);
  }

  DataShare data_share() const override { return {comm().rank() / stripes_, comm().world_size() / stripes_, stripes_}; }

  // Whoever holds a part has made, or read, its values; replicas have the same.
  void Start() override {
    if (striped_) striped_->ApplyMasks();
  }

  StepOutput Step(const StepInput& input) override {
    StepOutput output;
    TakeExchangeSeconds();  // evaluations exchange too
    const int64_t frames = input.features.rows();
    MatrixView logits;
    if (striped_) {
      output.loss = striped_->Forward(input.context, input.features, input.targets, workspace());
    } else {
      logits = network().Forward(input.context, input.features, workspace());
      CountForward(frames);
      output.loss = nn::SoftmaxCrossEntropy(logits, input.targets, logits);
    }
    const bool together = twins_.size() > 1;
    // The mean is over all replicas' frames: the fewer they are, the shorter the step, as CountAlike has it for one.
    const double rate = input.learning_rate * scaling_.Factor(step_++);
    optimizer().BeginStep(together ? rate * input.step_fullness : rate);
    std::fill(gradients_.begin(), gradients_.end(), 0.0f);
    nn::DenseGradientSink dense(gradients_);
    nn::GradientSink& sink = together ? static_cast<nn::GradientSink&>(dense) : optimizer();
    const nn::ExecContext context = nn::WithLoss(input.context, input.targets, output.loss);
    if (striped_) {
      striped_->Backward(context, workspace(), sink, optimizer());
    } else {
      network().Backward(context, logits, workspace(), sink, false,
                         [&](size_t layer) { CountBackward(layer, frames); });
    }
    if (together) AverageGradients(input);
    output.report = optimizer().EndStep();
    if (striped_) striped_->AfterUpdate(output.report.max_change_scale);
    output.communication_seconds = TakeExchangeSeconds();
    return output;
  }

  DividesTheModel* division() override { return this; }
  bool divides_streams() const override { return options_.data_parallel_layers != 0; }
  MatrixView Logits(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws) override {
    return striped_ ? striped_->Logits(context, x, ws) : network().Forward(context, x, ws);
  }
  void MeanOfParts(std::span<float>) override {}  // they are the same

  Checkpointable* state() override { return this; }
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    const int64_t numbers[] = {step_, twins_.size()};
    writer.Add(prefix + ".step", std::span<const int64_t>(numbers));
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    step_ = reader.ReadInts(prefix + ".step").at(0);
  }
  // Other parts have other links between them.
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override {
    const std::vector<int64_t> numbers = ranks[0].ReadInts(prefix + ".step");
    // Earlier versions did not tell how many replicas there were.
    const size_t guessed = twins_.size() == 1 ? 1 : std::max<size_t>(1, ranks.size() / static_cast<size_t>(stripes_));
    const size_t replicas = numbers.size() > 1 ? static_cast<size_t>(numbers[1]) : guessed;
    step_ = StepsAsFar(numbers.at(0), replicas, twins_.size());
    if (striped_) striped_->ApplyMasks();
  }

  size_t copy_bytes() const override {
    return gradients_.size() * sizeof(float) + (striped_ ? striped_->copy_bytes() : 0);
  }

  std::vector<std::string> Describe() const override {
    std::vector<std::string> lines = {
        fmt::format("model-parallel: {} replica(s) of {} stripe(s), {} of {} parameters on this rank", twins_.size(),
                    stripes_, network().num_parameters(), network().num_whole_parameters())};
    if (twins_.size() > 1) lines.push_back(scaling_.Describe());
    if (striped_ && striped_->front()) lines.push_back(striped_->front()->Describe());
    if (options_.sparse_links >= 0) lines.push_back(fmt::format("{} links to each other rank", options_.sparse_links));
    return lines;
  }

 private:
  double TakeExchangeSeconds() { return group_.TakeSeconds() + twins_.TakeSeconds(); }

  // By frames, over the replicas; the optimiser takes the mean. A replica's gradient is its sum over frames, divided by
  // what a whole minibatch would have.
  void AverageGradients(const StepInput& input) {
    double frames = FrameWeight(input);
    const auto divided_by = static_cast<float>(input.targets.total_weight.value_or(frames));
    twins_.AllReduce(std::span<double>(&frames, 1));
    for (float& g : gradients_) g *= divided_by;
    twins_.AllReduce(std::span<float>(gradients_));
    const auto scale = static_cast<float>(frames > 0 ? 1 / frames : 0.0);
    for (float& g : gradients_) g *= scale;
    optimizer().TakeAll(network(), gradients_);
  }

  ModelParallelOptions options_;
  int stripes_;
  RankGroup group_;  // this replica
  RankGroup twins_;  // ranks with the same part in all replicas
  RateScaling scaling_;
  std::optional<StripedNetwork> striped_;  // none with one stripe
  int64_t step_ = 0;
  std::vector<float> gradients_;  // laid out as the network's values, with several replicas
};

REGISTER_COMPONENT(StrategyRegistry, "model-parallel", [](const Config& config, const Replica& replica) {
  return std::make_unique<ModelParallel>(config, replica);
});
REGISTER_COMPONENT(DivisionRegistry, "model-parallel", DivideByOutputs);

}  // namespace
}  // namespace antiphon::parallel
