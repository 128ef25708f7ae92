#include "parallel/strategy.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "parallel/step_cost.h"
#include "parallel/strategy_traits.h"

namespace antiphon::parallel {

const std::vector<std::string> kCommonStrategyKeys = {"method", "workers", "world", "device-memory-mb"};

void Strategy::Start() {
  if (comm().world_size() == 1) return;
  comm().Together(network().values(), [this] { comm().Broadcast(0, network().values()); });
  network().MarkChanged();
}

void CountAlike(double fullness, StepInput& input) {
  if (fullness > 0 && fullness < 1) input.targets.total_weight = FrameWeight(input) / fullness;
}

StepOutput Strategy::Step(const StepInput& input) {
  StepOutput output;
  const int64_t frames = input.features.rows();
  const MatrixView logits = network().Forward(input.context, input.features, workspace_);
  CountForward(frames);
  output.loss = nn::SoftmaxCrossEntropy(logits, input.targets, logits);
  last_loss_ = output.loss;
  nn::GradientSink& sink = BeginStep(input);
  const nn::ExecContext context = nn::WithLoss(input.context, input.targets, output.loss);
  network().Backward(context, logits, workspace_, sink, false, [&](size_t layer) {
    CountBackward(layer, frames);
    AfterLayerBackward(layer);
  });
  output.report = AfterStep(input);
  output.communication_seconds = TakeCommunication();
  return output;
}

nn::GradientSink& Strategy::BeginStep(const StepInput& input) {
  optimizer().BeginStep(input.learning_rate);
  return optimizer();
}

optim::StepReport Strategy::AfterStep(const StepInput&) { return optimizer().EndStep(); }

MatrixView Strategy::Forward(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws) {
  DividesTheModel* const divided = division();
  return divided != nullptr ? divided->Logits(context, x, ws) : network().Forward(context, x, ws);
}

void Strategy::MeanOverReplicas(std::span<float> values) {
  if (DividesTheModel* const divided = division()) return divided->MeanOfParts(values);
  if (comm().world_size() == 1) return;
  int replicas = 0;
  comm().Together(values, [&] {
    replicas = comm().world_size();
    comm().AllReduce(values);
  });
  for (float& v : values) v /= static_cast<float>(replicas);
}

const ModelParts& Strategy::RequireParts() const {
  CHECK(replica_.parts != nullptr) << "the network was not divided";
  return *replica_.parts;
}

void Strategy::CountForward(size_t first, size_t last, int64_t frames) const {
  if (!comm().time_is_virtual()) return;
  const StepCost cost(network());
  double flops = 0;
  for (size_t i = first; i < last; ++i) flops += cost.forward_flops(i) * static_cast<double>(frames);
  if (flops > 0) comm().ComputeFlops(flops);
}

void Strategy::CountBackward(size_t layer, int64_t frames) const {
  if (!comm().time_is_virtual()) return;
  const double flops = StepCost(network()).backward_flops(layer) * static_cast<double>(frames);
  if (flops > 0) comm().ComputeFlops(flops);
}

void Strategy::SaveStreams(SafetensorsWriter& writer, const std::string& name) const {
  const std::vector<std::byte> states = workspace_.States();
  if (states.empty()) return;
  writer.Add(name, TensorType::kU8, {std::ssize(states)}, states);
}

void Strategy::LoadStreams(const SafetensorsReader& reader, const std::string& name) {
  ForgetStreams();
  if (!reader.Has(name)) return;
  WithContext([&] { workspace_.SetStates(reader.Tensor(name).data); }, [&] { return name; });
}

void LoadValues(const SafetensorsReader& reader, const std::string& name, std::span<float> values) {
  const std::vector<float> stored = reader.ReadFloats(name);
  if (stored.size() != values.size()) {
    Throw<InputError>("'{}': '{}' has {} values, expected {}", reader.path().string(), name, stored.size(),
                      values.size());
  }
  std::copy(stored.begin(), stored.end(), values.begin());
}

double FrameWeight(const StepInput& input) {
  const std::span<const float> weights = input.targets.frame_weights;
  if (weights.empty()) return static_cast<double>(input.features.rows());
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

std::unique_ptr<Strategy> MakeStrategy(const Config& config, const Replica& replica) {
  const std::string method = MethodOf(config);
  return WithContext([&] { return StrategyRegistry::Get().Create(method, config, replica); },
                     [&] { return config.Where("method") + ": parallel.method"; });
}

}  // namespace antiphon::parallel
