#include "infer/plan.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.h"
#include "base/suggest.h"
#include "infer/steps/layer_step.h"
#include "math/finite.h"

namespace antiphon::infer {
namespace {

bool SameFormat(const OutputFormat& a, const OutputFormat& b) {
  if (a.type != b.type) return false;
  return a.type != DataType::kInt8 || (b.scale == 0.0F || (a.scale == b.scale && a.zero == b.zero));
}

void CheckFinite(ConstMatrixView input) {
  for (int64_t r = 0; r < input.rows(); ++r) {
    if (!AllFinite(input.Row(r))) Throw<InputError>("features {} of a batch are not finite numbers", r);
  }
}

}  // namespace

DataType ParsePlanPrecision(std::string_view name) {
  if (name == "int8") return DataType::kInt8;
  if (name == "bf16") return DataType::kBf16;
  if (name == "fp32") return DataType::kFloat32;
  throw UsageError(UnknownNameMessage("precision", name, {"fp32", "bf16", "int8"}));
}

DataType ParsePlanPrecision(std::string_view name, const nn::Network& network, Isa isa) {
  if (name != "auto") return ParsePlanPrecision(name);
  const auto in_few_bits = [](const nn::Parameter* p) {
    return p->storage == nn::Storage::kInt8 || p->storage == nn::Storage::kInt4 || p->storage == nn::Storage::kSigns;
  };
  if (std::ranges::any_of(network.parameters(), in_few_bits)) return DataType::kInt8;
  return isa >= Isa::kAvx512Bf16 ? DataType::kBf16 : DataType::kFloat32;
}

std::string_view PlanPrecisionName(DataType type) {
  return type == DataType::kInt8 ? "int8" : (type == DataType::kBf16 ? "bf16" : "fp32");
}

// Layers list their parameters for whoever trains them; here they are only read.
std::span<nn::Parameter* const> StepArgs::parameters() const {
  return const_cast<nn::Layer&>(network.layer(layer)).parameters();
}

std::span<nn::Parameter* const> StepArgs::buffers() const {
  return const_cast<nn::Layer&>(network.layer(layer)).buffers();
}

ConstMatrixView StepArgs::Find(std::string_view name) const {
  const std::string suffix = "." + std::string(name);
  for (const auto& list : {parameters(), buffers()}) {
    for (const nn::Parameter* p : list) {
      if (p->name.ends_with(suffix)) return p->value;
    }
  }
  return {};
}

ConstMatrixView StepArgs::Get(std::string_view name) const {
  const ConstMatrixView found = Find(name);
  CHECK(found.data() != nullptr) << network.layer_name(layer) << " has no " << name;
  return found;
}

std::span<const float> StepArgs::Bias() const {
  const ConstMatrixView bias = Find("bias");
  return bias.empty() ? std::span<const float>() : bias.Row(0);
}

OutputFormat StepArgs::InputFormat(DataType type) const {
  OutputFormat format{type, type == DataType::kInt8 ? 0.0F : 1.0F, 0};
  const ConstMatrixView scale = Find("input_scale"), zero = Find("input_zero");
  if (type != DataType::kInt8 || scale.empty() || zero.empty()) return format;
  format.scale = scale(0, 0);
  format.zero = static_cast<int32_t>(zero(0, 0));
  return format;
}

Plan::Plan(const nn::Network& network, const PlanOptions& options)
    : options_(options),
      in_dim_(network.in_dim()),
      out_dim_(network.out_dim()),
      context_(network.time_context()),
      converter_(options.isa) {
  PlanOptions inside = options;
  inside.check_input = false;
  for (size_t i = 0; i < network.num_layers(); ++i) {
    const std::string& type = network.layer_type(i);
    StepArgs args{network, i, Activation::kNone, inside};
    if (!StepRegistry::Get().Has(type)) {
      const nn::Layer& layer = network.layer(i);
      if (layer.recurrent() || !layer.time_context().one_to_one()) {
        Throw<UsageError>("layer '{}' of type '{}' looks at several frames, and cannot be run by the scorer",
                          network.layer_name(i), type);
      }
      steps_.push_back(std::make_unique<LayerStep>(args));
      step_of_layer_[network.layer_name(i)] = steps_.size() - 1;
      continue;
    }
    const bool absorbs = i + 1 < network.num_layers() && !network.begins_range(i + 1);
    if (absorbs) args.activation = network.layer(i + 1).properties().activation;
    if (auto step = StepRegistry::Get().Create(type, args)) steps_.push_back(std::move(step));
    if (absorbs) ++i;
    if (!steps_.empty()) step_of_layer_[network.layer_name(i)] = steps_.size() - 1;
  }
  for (size_t i = 0; i + 1 < steps_.size(); ++i) {
    const OutputFormat wanted = steps_[i + 1]->input_format();
    if (!options.adaptable || wanted.scale != 0.0F) steps_[i]->OfferOutput(wanted);
  }
  if (steps_.empty()) {
    Throw<UsageError>(
        "none of the layers ('{}' …) does anything in scoring: a network, and a chain inside a layer, needs "
        "one that does",
        network.num_layers() > 0 ? network.layer_type(0) : "");
  }
  for (const auto& step : steps_) {
    widest_ = std::max(widest_, step->in_dim());
    needs_network_ = needs_network_ || step->needs_network();
    sequential_ = sequential_ || step->sequential();
  }
}

double Plan::OperationsPerFrame() const {
  double operations = 0, share = 1;
  for (const auto& step : steps_) {
    share /= step->stride();
    operations += share * static_cast<double>(step->Info().operations);
  }
  return operations;
}

int64_t Plan::weight_bytes() const {
  int64_t bytes = 0;
  for (const auto& step : steps_) bytes += step->Info().weight_bytes;
  return bytes;
}

PlanMemory::PlanMemory(const Plan& plan, int max_rows) : max_rows_(max_rows), factors_(static_cast<size_t>(max_rows)) {
  CHECK_GE(max_rows, 1);
  runs_.reserve(static_cast<size_t>(max_rows));
  const int64_t buffer = (RowsBytes(max_rows, plan.widest_) + 63) / 64 * 64;
  const int64_t input = (RowsBytes(max_rows, plan.in_dim_) + 63) / 64 * 64;
  int64_t scratch = 0;
  for (const auto& step : plan.steps_) scratch = std::max(scratch, step->scratch_bytes(max_rows));
  memory_ = HugeBuffer(static_cast<size_t>(input + 3 * buffer + scratch));
  input_ = PlaceRows(memory_.data(), DataType::kFloat32, max_rows, plan.in_dim_).Floats();
  for (int i = 0; i < 3; ++i) buffers_[i] = memory_.data() + input + i * buffer;
  scratch_ = memory_.data() + input + 3 * buffer;
}

Rows Plan::RunSteps(size_t count, int rows, PlanMemory& memory, MatrixView out, const Streams* streams,
                    RowProfiles profiles) const {
  CHECK(profiles.empty() || options_.adaptable);
  CHECK(profiles.empty() || std::ssize(profiles) == (streams != nullptr ? std::ssize(streams->rows) : rows));
  CHECK(rows >= 0 && rows <= memory.max_rows_);
  if (options_.check_input) CheckFinite(ConstMatrixView(memory.input_).Rows(0, rows));
  const auto find_runs = [&] {
    if (streams != nullptr) {
      FindRuns(profiles, streams->rows, memory.runs_);
    } else {
      FindRuns(profiles, memory.runs_);
    }
  };
  find_runs();
  Rows now = PlaceRows(memory.memory_.data(), DataType::kFloat32, rows, in_dim_);
  OutputFormat format;
  // What the step after the last one of `count` reads is prepared too, so that it can be run by others.
  for (size_t i = 0; i <= count && i < steps_.size(); ++i) {
    const PlanStep& step = *steps_[i];
    const auto start = std::chrono::steady_clock::now();
    if (!SameFormat(format, step.input_format())) {
      const Rows converted = PlaceRows(memory.buffers_[2], step.input_format().type, rows, now.dim);
      converter_.Run(now, step.input_format(), converted);
      now = converted;
    }
    if (i == count) break;
    const StepChanges changes = ChangesOf(memory.runs_, i, memory.factors_);
    format = changes.parts ? OutputFormat{} : step.output_format();
    Rows next;
    if (i + 1 < steps_.size()) {
      next = PlaceRows(memory.buffers_[i % 2], format.type, rows, step.out_dim());
    } else {
      next.rows = rows;
      next.dim = out.cols();
      next.stride = out.stride() * int64_t{sizeof(float)};
      next.data = reinterpret_cast<std::byte*>(out.data());
    }
    next.factors = changes.factors;
    if (step.sequential()) {
      rows = RunSequential(i, now, *streams, memory, next);
      next.rows = rows;
      find_runs();
    } else {
      step.Run(now, next, memory.scratch_);
    }
    now = next;
    if (changes.parts) {
      ApplyParts(memory.runs_, i, now, memory.buffers_[2], memory.buffers_[(i + 1) % 2]);
    }
    if (i < memory.step_seconds.size()) {
      memory.step_seconds[i] += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
  }
  return now;
}

// Returns how many rows come out.
int Plan::RunSequential(size_t step, const Rows& in, const Streams& streams, PlanMemory& memory,
                        const Rows& out) const {
  memory.states_.resize(streams.states.size());
  for (size_t s = 0; s < streams.states.size(); ++s) memory.states_[s] = &streams.states[s]->steps_[step];
  steps_[step]->RunStreams(in, {streams.rows, memory.states_}, out, memory.scratch_);
  return std::accumulate(streams.rows.begin(), streams.rows.end(), 0);
}

void Plan::Run(int rows, PlanMemory& memory, MatrixView out, RowProfiles profiles) const {
  CHECK(out.rows() == rows && out.cols() == out_dim_);
  CHECK(!sequential_) << "frames of streams are run by RunStreams";
  RunSteps(steps_.size(), rows, memory, out, nullptr, profiles);
}

void Plan::RunStreams(std::span<int> rows, std::span<PlanState* const> states, PlanMemory& memory, MatrixView out,
                      RowProfiles profiles) const {
  const int total = std::accumulate(rows.begin(), rows.end(), 0);
  CHECK(out.rows() >= total && out.cols() == out_dim_ && rows.size() == states.size());
  const Streams streams{rows, states};
  RunSteps(steps_.size(), total, memory, out, &streams, profiles);
}

Rows Plan::RunHidden(int rows, PlanMemory& memory, RowProfiles profiles) const {
  CHECK(!sequential_) << "frames of streams are run by RunStreams";
  return RunSteps(steps_.size() - 1, rows, memory, {}, nullptr, profiles);
}

PlanState::PlanState(const Plan& plan) : plan_(plan), steps_(plan.steps_.size()) { Reset(); }

void PlanState::Reset() {
  for (size_t i = 0; i < steps_.size(); ++i) plan_.steps_[i]->Begin(steps_[i]);
}

size_t StepState::bytes() const {
  size_t bytes = sizeof(StepState) + values.capacity() * sizeof(float) + (inner ? inner->bytes() : 0);
  for (const StepState& part : parts) bytes += part.bytes();
  return bytes;
}

size_t PlanState::bytes() const {
  size_t bytes = 0;
  for (const StepState& step : steps_) bytes += step.bytes();
  return bytes;
}

std::optional<size_t> Plan::StepOf(const std::string& layer) const {
  const auto found = step_of_layer_.find(layer);
  return found == step_of_layer_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace antiphon::infer
