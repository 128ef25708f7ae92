// Pipelined back-propagation: each rank is a stage that holds consecutive layers, and all stages work at once, on
// different minibatches.
//
// Exchanged: per minibatch and border between stages, activations upwards and their derivatives downwards,
// 2·4·N·width bytes; with `output-stripes` = R the last R ranks hold the rows of the output layer together, and 16·N·R
// bytes per rank make their softmax. When: in every tick a stage runs backward and update of one minibatch, then
// forward of a later one; a tick here is the forward of one and the backward of the next, the same sequence. What a
// stage needs, the others sent in the tick before, so that no tick waits for another stage's work in it.
// Staleness: stage k of K runs minibatch j's forward without the updates of 2(K − k) minibatches before it, and its
// backward with the newest weights; 0 at the top. Drained at the ends of epochs. A rank holds its own layers
// alone, and passes them minibatch by minibatch for evaluation too. Momentum compounds the delay, and low stages may
// need lower rates. max-change limits apply within a stage.
// Sequences: a recurrent layer goes on from the state that its stage's forward pass of the minibatch before left, which
// is as late as the weights. N is what the layer at the border gives; layers with context give fewer rows than they
// get. Determinism: as serial training; the balance "measured" depends on the machine, so its result is logged and kept
// in checkpoints. Source: Chen, Eversole, Li, Yu, Seide, Interspeech 2012; algorithms reference 1.6.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/error.h"
#include "base/options.h"
#include "parallel/pipeline_state.h"
#include "parallel/stage_plan.h"
#include "parallel/step_cost.h"
#include "parallel/strategy.h"
#include "parallel/strategy_traits.h"
#include "parallel/striped_softmax.h"

namespace antiphon::parallel {
namespace {

constexpr int kActivationTag = 1;
constexpr int kDerivativeTag = 2;
constexpr int kEvaluationTag = 3;
constexpr int64_t kRunAhead = 16;      // minibatches of evaluation
constexpr int kGenerations = 1 << 16;  // of tags
constexpr int kMeasuredFrames = 256;

struct PipelineOptions {
  std::string balance = "modelled";
  std::vector<int> first_layers;
  int output_stripes = 1;
  template <class V>
  void Visit(V& v) {
    v("balance", balance, OneOf{{"modelled", "measured"}},
      "cut the network into stages of equal work by the number of weights, or by timing each layer here");
    v("first-layers", first_layers, Range{0, 1 << 20}, "lowest layer of each stage, instead of balancing: [0, 4, 8]");
    v("output-stripes", output_stripes, Range{1, 4096}, "ranks that share the rows of the output layer");
  }
};

int StagesOf(const PipelineOptions& options, int workers) {
  const int stages = workers - options.output_stripes + 1;
  if (stages < (options.output_stripes > 1 ? 2 : 1)) {
    Throw<UsageError>("parallel.output-stripes {} needs more than {} workers: at least one for the layers below",
                      options.output_stripes, workers);
  }
  return stages;
}

// Consecutive layers for each stage.
std::vector<nn::LayerRange> PlanStages(const PipelineOptions& options, const DivisionTask& task) {
  const nn::Network& outline = *task.outline;
  const int stages = StagesOf(options, task.comm->world_size());
  const bool striped = options.output_stripes > 1;
  const size_t output = outline.num_layers() - 1;
  if (striped && !outline.begins_range(output)) {
    throw UsageError("parallel.output-stripes: the network must end with its output layer");
  }
  if (!options.first_layers.empty()) {
    if (std::ssize(options.first_layers) != stages) {
      Throw<UsageError>("parallel.first-layers names {} stages, but the workers make {}", options.first_layers.size(),
                        stages);
    }
    if (striped && options.first_layers.back() != static_cast<int>(output)) {
      throw UsageError("parallel.first-layers: with output-stripes the last stage must be the output layer alone");
    }
    return StagesFrom(outline, options.first_layers);
  }
  std::vector<double> costs;
  if (options.balance == "measured") {
    // The ranks measure at the same time, as they will train; everybody takes the mean.
    costs = MeasuredLayerCosts(outline, nn::ExecContext{}, kMeasuredFrames);
    task.comm->AllReduce(std::span<double>(costs));
  } else {
    costs = ModelledLayerCosts(*task.outline);
  }
  if (!striped) return BalanceStages(outline, costs, stages);
  // The output layer is a stage of its own; the others share the layers below it.
  std::vector<nn::LayerRange> ranges = BalanceStages(outline, std::span(costs).first(output), stages - 1);
  ranges.push_back({output, output + 1});
  return ranges;
}

std::unique_ptr<ModelParts> DivideIntoStages(const DivisionTask& task) {
  const auto options = ReadOptions<PipelineOptions>(*task.parallel, kCommonStrategyKeys);
  const int workers = task.comm->world_size();
  const std::vector<nn::LayerRange> stages = PlanStages(options, task);
  if (workers == 1) return nullptr;
  const size_t layers = task.outline->num_layers();
  std::vector<std::vector<nn::OutputRange>> parts;
  for (int rank = 0; rank < workers; ++rank) {
    const nn::LayerRange& range = stages[std::min(static_cast<size_t>(rank), stages.size() - 1)];
    parts.emplace_back(layers, nn::OutputRange{0, 0});
    for (size_t i = range.first; i < range.last; ++i) parts.back()[i] = nn::OutputRange{};
  }
  for (int stripe = 0; options.output_stripes > 1 && stripe < options.output_stripes; ++stripe) {
    const size_t rank = stages.size() - 1 + static_cast<size_t>(stripe);
    parts[rank].back() = EvenRange(task.outline->layer(layers - 1).whole_out_dim(), stripe, options.output_stripes);
    if (parts[rank].back().count == 0) {
      Throw<UsageError>("parallel.output-stripes {}: there are only {} outputs", options.output_stripes,
                        task.outline->out_dim());
    }
  }
  return std::make_unique<ModelParts>(std::move(parts));
}

class Pipeline : public Strategy, public Checkpointable, public DividesTheModel {
 public:
  Pipeline(const Config& config, const Replica& replica)
      : Strategy(replica), options_(ReadOptions<PipelineOptions>(config, kCommonStrategyKeys)) {
    num_stages_ = StagesOf(options_, comm().world_size());
    stage_ = std::min(comm().rank(), num_stages_ - 1);
    FindStages();
    if (options_.output_stripes > 1 && top()) {
      stripes_.emplace(comm(), RanksFrom(num_stages_ - 1, 1, options_.output_stripes), 0);
      first_column_ = RequireParts().Of(comm().rank()).back().first;
    }
    flight_.SetSizes(static_cast<size_t>(backward_delay() + 1), static_cast<size_t>(lag() + 1));
  }

  DataShare data_share() const override { return {0, 1, comm().world_size()}; }

  // Whoever holds a layer has made, or read, its values.
  void Start() override {}

  StepOutput Step(const StepInput& input) override {
    if (stripes_) stripes_->TakeSeconds();  // evaluations exchange too
    flight_.Accept(input, next_, stage_ == 0, stage_ == num_stages_ - 1);
    const int64_t tick = next_++;
    StepOutput output;
    RunTick(tick, output);
    output.communication_seconds = TakeCommunication();
    return output;
  }

  std::vector<StepOutput> Drain() override {
    std::vector<StepOutput> outputs;
    for (int64_t tick = next_; tick < next_ + backward_delay(); ++tick) {
      StepOutput output;
      RunTick(tick, output);
      output.communication_seconds = TakeCommunication();
      outputs.push_back(output);
    }
    next_ = updates_ = 0;
    return outputs;
  }

  DividesTheModel* division() override { return this; }
  // From stage to stage; the ranks of the top one get the logits. Now and then all wait for each other, so that lower
  // stages do not run away.
  MatrixView Logits(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws) override {
    if (num_stages_ == 1) return network().Forward(context, x, ws);
    if (evaluated_++ % kRunAhead == 0) comm().Barrier();
    Matrix& input = passed_up_;
    if (stage_ > 0) UnpackPassage(comm().Receive(stage_ - 1, kEvaluationTag).bytes, input);
    MatrixView y = network().Forward(context, stage_ == 0 ? x : ConstMatrixView(input), range(), ws);
    if (!top()) {
      SendUp(kEvaluationTag, PackPassage({}, y));
      return {};
    }
    if (!stripes_) return y;
    const auto all = stripes_->Exchange({y.data(), static_cast<size_t>(y.size())});
    const MatrixView logits = ws.Float(network().num_layers() + 1, y.rows(), network().out_dim());
    int64_t column = 0;
    for (const std::vector<float>& part : all) {
      const int64_t width = std::ssize(part) / std::max<int64_t>(1, y.rows());
      for (int64_t n = 0; n < y.rows(); ++n) std::copy_n(part.data() + n * width, width, logits.Row(n).data() + column);
      column += width;
    }
    return logits;
  }
  void MeanOfParts(std::span<float>) override {}  // there is one

  void ResetState() override {
    // What is still under way belongs to the model that was given up: it stays unread under the old tags.
    generation_ = (generation_ + 1) % kGenerations;
    next_ = updates_ = 0;
    activations_.clear();
    derivatives_.clear();
  }

  Checkpointable* state() override { return this; }
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    FetchOutstanding();
    const PipelineState state{
        next_, updates_, {activations_.begin(), activations_.end()}, {derivatives_.begin(), derivatives_.end()}};
    state.Save(writer, prefix);
    flight_.Save(writer, prefix, forward_done(), next_);
  }

  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    const PipelineState state = PipelineState::Load(reader, prefix);
    next_ = state.next;
    updates_ = state.updates;
    activations_.assign(state.activations.begin(), state.activations.end());
    derivatives_.assign(state.derivatives.begin(), state.derivatives.end());
    flight_.Load(reader, prefix, [this](int64_t minibatch) { ForwardLayers(minibatch); });
  }

  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override {
    if (PipelineState::Load(ranks[0], prefix).next > 0) {
      Throw<InputError>(
          "a pipeline of {} stages stopped with minibatches under way, which only as many stages can finish; "
          "checkpoints at the ends of epochs fit any number",
          ranks.size());
    }
  }

  int minibatches_under_way() const override { return static_cast<int>(lag()) + 1; }

  std::vector<std::string> Describe() const override {
    const std::vector<double> costs = ModelledLayerCosts(network());
    double all = 0;
    for (const double c : costs) all += c;
    std::vector<std::string> lines;
    for (int s = 0; s < num_stages_; ++s) {
      const nn::LayerRange range = stages_[static_cast<size_t>(s)];
      double cost = 0;
      for (size_t i = range.first; i < range.last; ++i) cost += costs[i];
      const bool striped = s == num_stages_ - 1 && options_.output_stripes > 1;
      lines.push_back(fmt::format(
          "pipeline stage {}: layers {} … {}, {:.0f} % of the weights' work{}, {} updates late", s + 1,
          network().layer_name(range.first), network().layer_name(range.last - 1), 100 * cost / all,
          striped ? fmt::format(" on {} ranks", options_.output_stripes) : std::string(), 2 * (num_stages_ - 1 - s)));
    }
    return lines;
  }

 private:
  // Ticks from a minibatch's arrival to its backward pass at this stage, and updates that its forward pass misses.
  int64_t backward_delay() const { return 2 * num_stages_ - 2 - stage_; }
  int64_t lag() const { return 2 * (num_stages_ - 1 - stage_); }
  // Minibatches below this one went forward here.
  int64_t forward_done() const { return std::max<int64_t>(0, next_ - stage_); }
  bool top() const { return stage_ == num_stages_ - 1; }
  nn::LayerRange range() const { return stages_[static_cast<size_t>(stage_)]; }
  int Tag(int kind) const { return 4 * generation_ + kind; }

  // As the model was divided.
  void FindStages() {
    if (comm().world_size() == 1) {
      stages_ = {network().all_layers()};
      return;
    }
    for (int s = 0; s < num_stages_; ++s) {
      const std::vector<nn::OutputRange>& held = RequireParts().Of(s);
      nn::LayerRange range{held.size(), 0};
      for (size_t i = 0; i < held.size(); ++i) {
        if (held[i].count == 0) continue;
        range.first = std::min(range.first, i);
        range.last = i + 1;
      }
      stages_.push_back(range);
    }
  }

  // Ranks of a stage; the top one may have several.
  std::pair<int, int> RanksOf(int stage) const {
    return {stage, stage == num_stages_ - 1 ? comm().world_size() : stage + 1};
  }

  void RunTick(int64_t tick, StepOutput& output) {
    if (const int64_t j = tick - stage_; j >= 0 && j < next_) Forward(j);
    if (const int64_t j = tick - backward_delay(); j >= 0 && j < next_) Backward(j, output);
  }

  void Forward(int64_t minibatch) {
    if (stage_ > 0) Receive(activations_, stage_ - 1, kActivationTag, minibatch, flight_.input(minibatch));
    InFlight& flight = flight_.at(minibatch);
    flight.staleness = static_cast<double>(minibatch - updates_);
    const MatrixView y = ForwardLayers(minibatch);
    if (top()) {
      flight.loss = stripes_ ? StripedSoftmaxCrossEntropy(*stripes_, y, first_column_, flight.targets(), y)
                             : nn::SoftmaxCrossEntropy(y, flight.targets(), y);
      if (stripes_) AddCommunication(stripes_->TakeSeconds());
      flight.derivative = y;
    } else {
      Exchanging([&] { SendUp(Tag(kActivationTag), PackPassage({minibatch, {}, 1.0}, y)); });
    }
  }

  void SendUp(int tag, const std::vector<std::byte>& message) {
    const auto [first, end] = RanksOf(stage_ + 1);
    for (int r = first; r < end; ++r) comm().Send(r, tag, message);
  }

  MatrixView ForwardLayers(int64_t minibatch) {
    InFlight& flight = flight_.at(minibatch);
    const ConstMatrixView x = stage_ == 0 ? ConstMatrixView(flight.features) : flight_.input(minibatch);
    nn::Workspace& ws = flight_.BeginForward(minibatch);
    const MatrixView y = network().Forward(flight.context, x, range(), ws);
    CountFlops(ws, false);
    return y;
  }

  void Backward(int64_t minibatch, StepOutput& output) {
    InFlight& flight = flight_.at(minibatch);
    PassageHeader header{minibatch, flight.loss, 1.0};
    if (!top()) header = ReceiveDerivative(minibatch, flight);
    CountFlops(flight_.workspace(minibatch), true);
    optimizer().BeginStep(flight.learning_rate);
    const nn::ExecContext context = nn::WithLoss(flight.context, flight.targets(), header.loss);
    const MatrixView dx =
        network().Backward(context, flight.derivative, range(), flight_.workspace(minibatch), optimizer(), stage_ > 0);
    output.report = optimizer().EndStep();
    ++updates_;
    output.loss = header.loss;
    output.staleness = flight.staleness;
    header.change_scale = std::min(header.change_scale, output.report.max_change_scale);
    output.report.max_change_scale = header.change_scale;
    if (stage_ == 0) return;
    Exchanging([&] { comm().Send(stage_ - 1, Tag(kDerivativeTag), PackPassage(header, dx)); });
  }

  // Of the rows that the forward pass in `ws` gave.
  void CountFlops(nn::Workspace& ws, bool backward) const {
    if (!comm().time_is_virtual()) return;
    const StepCost cost(network());
    double flops = 0;
    for (size_t i = range().first; i < range().last; ++i) {
      flops += (backward ? cost.backward_flops(i) : cost.forward_flops(i)) * static_cast<double>(ws.Child(i).y.rows());
    }
    comm().ComputeFlops(flops);
  }

  // From several stripes: their sum, in the order of ranks.
  PassageHeader ReceiveDerivative(int64_t minibatch, InFlight& flight) {
    const auto [first, end] = RanksOf(stage_ + 1);
    PassageHeader header = Receive(derivatives_, first, kDerivativeTag, minibatch, derivative_);
    for (int r = first + 1; r < end; ++r) {
      const PassageHeader other = Receive(derivatives_, r, kDerivativeTag, minibatch, part_);
      header.change_scale = std::min(header.change_scale, other.change_scale);
      float* sum = derivative_.data();
      for (int64_t i = 0; i < derivative_.size(); ++i) sum[i] += part_.data()[i];
    }
    flight.derivative = derivative_;
    return header;
  }

  PassageHeader Receive(std::deque<std::vector<std::byte>>& early, int source, int kind, int64_t minibatch,
                        Matrix& values) {
    std::vector<std::byte> bytes;
    if (early.empty()) {
      const double begin = comm().Now();
      bytes = comm().Receive(source, Tag(kind)).bytes;
      AddCommunication(comm().Now() - begin);
    } else {
      bytes = std::move(early.front());
      early.pop_front();
    }
    const PassageHeader header = UnpackPassage(bytes, values);
    if (header.minibatch != minibatch) {
      Throw<PeerError>("stage {} got minibatch {} from rank {}, expected {}: the ranks do not run the same experiment",
                       stage_ + 1, header.minibatch, source, minibatch);
    }
    return header;
  }

  // What the neighbours sent for the next tick goes into a checkpoint.
  void FetchOutstanding() const {
    const auto wanted = [&](int64_t minibatch) { return minibatch >= 0 && minibatch < next_; };
    if (stage_ > 0 && activations_.empty() && wanted(next_ - stage_)) {
      activations_.push_back(comm().Receive(stage_ - 1, Tag(kActivationTag)).bytes);
    }
    if (top() || !derivatives_.empty() || !wanted(next_ - backward_delay())) return;
    const auto [first, end] = RanksOf(stage_ + 1);
    for (int r = first; r < end; ++r) derivatives_.push_back(comm().Receive(r, Tag(kDerivativeTag)).bytes);
  }

  PipelineOptions options_;
  int num_stages_ = 1;
  int stage_ = 0;  // from 0
  int generation_ = 0;
  std::vector<nn::LayerRange> stages_;
  std::optional<RankGroup> stripes_;  // of the top stage's ranks
  int first_column_ = 0;              // of the outputs that this rank holds there

  int64_t next_ = 0;     // minibatches since the pipeline was empty
  int64_t updates_ = 0;  // of this stage, likewise
  FlightDeck flight_;
  Matrix derivative_;
  Matrix part_;
  Matrix passed_up_;       // in evaluation
  int64_t evaluated_ = 0;  // minibatches
  // Received, but not yet used.
  mutable std::deque<std::vector<std::byte>> activations_;
  mutable std::deque<std::vector<std::byte>> derivatives_;
};

REGISTER_COMPONENT(StrategyRegistry, "pipeline", [](const Config& config, const Replica& replica) {
  return std::make_unique<Pipeline>(config, replica);
});
REGISTER_COMPONENT(DivisionRegistry, "pipeline", DivideIntoStages);
REGISTER_COMPONENT(StrategyTraitsRegistry, "pipeline", Traits({.divides_network = true}));

}  // namespace
}  // namespace antiphon::parallel
