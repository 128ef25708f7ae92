#include "parallel/pipeline_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace antiphon::parallel {
namespace {

struct PassageLayout {
  int64_t minibatch;
  int64_t rows;
  int64_t cols;
  double loss_sum;
  double weight_sum;
  double correct_sum;
  double change_scale;
};

std::span<const uint8_t> AsUint8(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> ReadBytes(const SafetensorsReader& reader, const std::string& name) {
  const std::span<const std::byte> data = reader.Tensor(name).data;
  return {data.begin(), data.end()};
}

constexpr double kNoTotal = -1;

}  // namespace

nn::LossTargets InFlight::targets() const {
  nn::LossTargets targets;
  targets.pdf_ids = pdf_ids;
  targets.frame_weights = weights;
  targets.total_weight = total_weight;
  return targets;
}

void FlightDeck::SetSizes(size_t arrived, size_t forwarded) {
  arrived_.clear();
  arrived_.resize(arrived);
  inputs_.clear();
  inputs_.resize(forwarded);
  workspaces_.clear();
  workspaces_.resize(forwarded);
  newest_ = 0;
}

nn::Workspace& FlightDeck::BeginForward(int64_t minibatch) {
  const size_t slot = SlotOf(minibatch);
  // Nobody needs those from which older minibatches started: what Backward reads of them is elsewhere.
  if (slot != newest_) workspaces_[slot].SwapStates(workspaces_[newest_]);
  newest_ = slot;
  return workspaces_[slot];
}

void FlightDeck::Accept(const StepInput& input, int64_t minibatch, bool keep_features, bool keep_targets) {
  nn::RequirePdfIds(input.targets, "a pipeline");
  InFlight& flight = at(minibatch);
  flight.context = input.context;
  flight.sequences.Keep(input.context.sequences);
  flight.context.sequences = flight.sequences.layout();
  flight.learning_rate = input.learning_rate;
  flight.loss = {};
  flight.total_weight = input.targets.total_weight;
  if (keep_features) {
    flight.features.Resize(input.features.rows(), input.features.cols());
    for (int64_t r = 0; r < input.features.rows(); ++r) {
      std::copy_n(input.features.Row(r).data(), input.features.cols(), flight.features.Row(r).data());
    }
  }
  if (!keep_targets) return;
  flight.pdf_ids.assign(input.targets.pdf_ids.begin(), input.targets.pdf_ids.end());
  flight.weights.assign(input.targets.frame_weights.begin(), input.targets.frame_weights.end());
}

void FlightDeck::Save(SafetensorsWriter& writer, const std::string& prefix, int64_t forward_done, int64_t next) const {
  // The oldest of the ring has gone backward already.
  const int64_t first = std::max<int64_t>(0, next - std::ssize(arrived_) + 1);
  writer.Add(prefix + ".flight", std::span<const int64_t>(std::vector<int64_t>{first, forward_done, next}));
  const std::vector<std::byte> states = workspaces_[newest_].States();
  if (!states.empty()) writer.Add(prefix + ".states", AsUint8(states));
  for (int64_t m = first; m < next; ++m) {
    const std::string name = fmt::format("{}.flight.{}.", prefix, m);
    const InFlight& f = at(m);
    writer.Add(name + "integers", std::span<const int64_t>(std::vector<int64_t>{
                                      static_cast<int64_t>(f.context.precision), f.context.training ? 1 : 0,
                                      static_cast<int64_t>(f.context.seed), f.context.step}));
    writer.Add(name + "reals",
               std::span<const double>(std::vector<double>{f.context.dropout_factor, f.learning_rate, f.staleness,
                                                           f.total_weight.value_or(kNoTotal)}));
    f.sequences.Save(writer, name);
    if (!f.features.empty()) writer.Add(name + "features", f.features);
    if (!f.pdf_ids.empty()) writer.Add(name + "pdf_ids", std::span<const int32_t>(f.pdf_ids));
    if (!f.weights.empty()) writer.Add(name + "weights", std::span<const float>(f.weights));
    if (m >= forward_done) continue;
    const size_t slot = SlotOf(m);
    if (!inputs_[slot].empty()) writer.Add(name + "input", inputs_[slot]);
    std::vector<std::byte> bytes;
    workspaces_[slot].AppendTo(bytes);
    writer.Add(name + "workspace", AsUint8(bytes));
  }
}

void FlightDeck::Load(const SafetensorsReader& reader, const std::string& prefix,
                      const std::function<void(int64_t)>& forward) {
  const std::vector<int64_t> range = reader.ReadInts(prefix + ".flight");
  for (int64_t m = range.at(0); m < range.at(2); ++m) {
    const std::string name = fmt::format("{}.flight.{}.", prefix, m);
    InFlight& f = at(m);
    const std::vector<int64_t> integers = reader.ReadInts(name + "integers");
    const std::vector<double> reals = reader.ReadDoubles(name + "reals");
    f.context.precision = static_cast<Precision>(integers.at(0));
    f.context.training = integers.at(1) != 0;
    f.context.seed = static_cast<uint64_t>(integers.at(2));
    f.context.step = integers.at(3);
    f.context.dropout_factor = reals.at(0);
    f.sequences.Load(reader, name);
    f.context.sequences = f.sequences.layout();
    f.learning_rate = reals.at(1);
    f.staleness = reals.at(2);
    f.total_weight = reals.at(3) == kNoTotal ? std::nullopt : std::optional<double>(reals.at(3));
    if (reader.Has(name + "features")) f.features = reader.ReadMatrix(name + "features");
    f.weights.clear();
    f.pdf_ids.clear();
    if (reader.Has(name + "pdf_ids")) {
      for (const int64_t id : reader.ReadInts(name + "pdf_ids")) f.pdf_ids.push_back(static_cast<int32_t>(id));
    }
    if (reader.Has(name + "weights")) f.weights = reader.ReadFloats(name + "weights");
    if (m >= range.at(1)) continue;
    if (reader.Has(name + "input")) input(m) = reader.ReadMatrix(name + "input");
    forward(m);
    std::span<const std::byte> bytes = reader.Tensor(name + "workspace").data;
    workspace(m).TakeFrom(bytes);
  }
  // Those passes have changed them.
  if (reader.Has(prefix + ".states")) workspaces_[newest_].SetStates(reader.Tensor(prefix + ".states").data);
}

std::vector<std::byte> PackPassage(const PassageHeader& header, ConstMatrixView values) {
  const PassageLayout layout{header.minibatch,       values.rows(),           values.cols(),      header.loss.loss_sum,
                             header.loss.weight_sum, header.loss.correct_sum, header.change_scale};
  const size_t row_bytes = static_cast<size_t>(values.cols()) * sizeof(float);
  std::vector<std::byte> bytes(sizeof(layout) + static_cast<size_t>(values.rows()) * row_bytes);
  std::memcpy(bytes.data(), &layout, sizeof(layout));
  std::byte* out = bytes.data() + sizeof(layout);
  for (int64_t r = 0; r < values.rows(); ++r, out += row_bytes) std::memcpy(out, values.Row(r).data(), row_bytes);
  return bytes;
}

PassageHeader UnpackPassage(const std::vector<std::byte>& bytes, Matrix& values) {
  PassageLayout layout{};
  if (bytes.size() >= sizeof(layout)) std::memcpy(&layout, bytes.data(), sizeof(layout));
  const size_t size = static_cast<size_t>(layout.rows) * static_cast<size_t>(layout.cols) * sizeof(float);
  if (bytes.size() < sizeof(layout) || layout.rows < 0 || layout.cols < 0 || bytes.size() != sizeof(layout) + size) {
    Throw<InputError>("a message between pipeline stages has {} bytes, which do not fit {} frames of {} values",
                      bytes.size(), layout.rows, layout.cols);
  }
  values.Resize(layout.rows, layout.cols);
  if (size > 0) std::memcpy(values.data(), bytes.data() + sizeof(layout), size);
  return {layout.minibatch, {layout.loss_sum, layout.weight_sum, layout.correct_sum}, layout.change_scale};
}

void PipelineState::Save(SafetensorsWriter& writer, const std::string& prefix) const {
  writer.Add(prefix + ".pipeline", std::span<const int64_t>(std::vector<int64_t>{next, updates, std::ssize(activations),
                                                                                 std::ssize(derivatives)}));
  for (size_t i = 0; i < activations.size(); ++i) {
    writer.Add(fmt::format("{}.activation.{}", prefix, i), AsUint8(activations[i]));
  }
  for (size_t i = 0; i < derivatives.size(); ++i) {
    writer.Add(fmt::format("{}.derivative.{}", prefix, i), AsUint8(derivatives[i]));
  }
}

PipelineState PipelineState::Load(const SafetensorsReader& reader, const std::string& prefix) {
  const std::vector<int64_t> numbers = reader.ReadInts(prefix + ".pipeline");
  PipelineState state;
  state.next = numbers.at(0);
  state.updates = numbers.at(1);
  for (int64_t i = 0; i < numbers.at(2); ++i) {
    state.activations.push_back(ReadBytes(reader, fmt::format("{}.activation.{}", prefix, i)));
  }
  for (int64_t i = 0; i < numbers.at(3); ++i) {
    state.derivatives.push_back(ReadBytes(reader, fmt::format("{}.derivative.{}", prefix, i)));
  }
  return state;
}

}  // namespace antiphon::parallel
