#include "parallel/gradient_exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/elementwise.h"

namespace antiphon::parallel {
namespace {

using Handling = comm::Handling;

constexpr int kFirstTag = 1 << 16;  // two per layer

int PartTag(size_t layer) { return kFirstTag + 2 * static_cast<int>(layer); }
int SumTag(size_t layer) { return PartTag(layer) + 1; }

}  // namespace

GradientExchange::GradientExchange(const Config& codec, double codec_start_epochs, int accumulate,
                                   const Replica& replica)
    : network_(*replica.network),
      comm_(*replica.comm),
      exact_(MakeCodec(Config())),
      codec_(MakeCodec(codec)),
      codec_name_(CodecName(codec)),
      codec_start_epochs_(codec_start_epochs),
      steps_per_epoch_(replica.plan.steps_per_epoch),
      accumulate_(accumulate),
      total_weight_(std::max(1.0, static_cast<double>(replica.plan.minibatch_frames)) * accumulate *
                    replica.comm->world_size()),
      layers_(network_.num_layers()),
      gradient_(network_.num_values(), 0.0f),
      memory_(static_cast<size_t>(codec_->num_planes()), std::vector<float>(network_.num_values(), 0.0f)),
      sum_memory_(static_cast<size_t>(codec_->num_sum_planes()), std::vector<float>(network_.num_values(), 0.0f)),
      parts_(static_cast<size_t>(comm_.world_size())) {
  if (codec_->momentum() > 0 && replica.optimizer->momentum() > 0) {
    Throw<UsageError>(
        "{}: codec '{}' with momentum {:g} and an optimizer with momentum {:g} would count each gradient's past twice: "
        "set optimizer.momentum = 0, or leave the codec's out",
        codec.Where("momentum"), codec_name_, codec_->momentum(), replica.optimizer->momentum());
  }
  for (size_t i = 0; i < layers_.size(); ++i) {
    for (nn::Parameter* p : network_.layer(i).parameters()) {
      if (p->learning_rate_factor == 0) continue;
      layers_[i].parameters.push_back(p);
      touched_[p] = false;
    }
  }
}

// Position in the run when the exchange under way began.
double GradientExchange::Epoch() const {
  if (steps_per_epoch_ == 0) return 0;
  return static_cast<double>(steps_ * accumulate_) / static_cast<double>(steps_per_epoch_);
}

Codec& GradientExchange::codec() {
  if (codec_start_epochs_ <= 0 || steps_per_epoch_ == 0) return *codec_;
  return Epoch() < codec_start_epochs_ ? *exact_ : *codec_;
}

// Vectors always travel as they are.
Codec& GradientExchange::CodecOf(const nn::Parameter& p) { return p.value.rows() > 1 ? codec() : *exact_; }

void GradientExchange::Handled(Handling what, ConstMatrixView values) {
  const auto bytes = static_cast<size_t>(values.rows() * values.cols()) * sizeof(float);
  comm_.Handled(what, bytes, &codec() == exact_.get() ? "fp32" : std::string_view(codec_name_));
}

void GradientExchange::Encode(const nn::Parameter& p, ConstMatrixView values, std::span<const MatrixView> memory,
                              Code& code) {
  CodecOf(p).Encode(values, memory, code);
  Handled(Handling::kEncode, values);
}

void GradientExchange::EncodeSum(const nn::Parameter& p, ConstMatrixView sum, Code& code) {
  CodecOf(p).EncodeSum(sum, Memory(sum_memory_, p, comm_.rank()), code);
  Handled(Handling::kEncode, sum);
}

size_t GradientExchange::Decode(const nn::Parameter& p, std::span<const std::byte> code, MatrixView values) {
  const size_t size = CodecOf(p).Decode(code, values);
  Handled(Handling::kDecode, values);
  return size;
}

size_t GradientExchange::DecodeSum(const nn::Parameter& p, std::span<const std::byte> code, MatrixView sum) {
  const size_t size = CodecOf(p).DecodeSum(code, sum);
  Handled(Handling::kDecode, sum);
  return size;
}

MatrixView GradientExchange::Part(MatrixView matrix, int r) {
  const auto range = [&](int64_t size, int64_t unit) {
    const auto units = static_cast<size_t>((size + unit - 1) / unit);
    const int64_t first = std::min(size, static_cast<int64_t>(comm_.Part(r, units)) * unit);
    const int64_t last = std::min(size, static_cast<int64_t>(comm_.Part(r + 1, units)) * unit);
    return std::pair(first, last - first);
  };
  if (matrix.rows() > 1 && !codec().by_columns()) {
    const auto [first, count] = range(matrix.rows(), 1);
    return matrix.Rows(first, count);
  }
  const auto [first, count] = range(matrix.cols(), matrix.rows() > 1 ? Codec::kColumnUnit : 1);
  return matrix.Cols(first, count);
}

std::vector<MatrixView> GradientExchange::Memory(std::vector<std::vector<float>>& planes, const nn::Parameter& p,
                                                 int r) {
  std::vector<MatrixView> views;
  for (std::vector<float>& plane : planes) {
    views.push_back(Part({plane.data() + p.offset, p.value.rows(), p.value.cols()}, r));
  }
  return views;
}

MatrixView GradientExchange::Target(nn::Parameter& parameter) {
  return {gradient_.data() + parameter.offset, parameter.value.rows(), parameter.value.cols()};
}

// Whether the parameter's gradient holds something of this step already; from now on it does.
bool GradientExchange::Touch(const nn::Parameter& parameter) { return std::exchange(touched_.at(&parameter), true); }

void GradientExchange::BeginMinibatch(double frame_weight) {
  if (minibatches_ == accumulate_) {
    minibatches_ = 0;
    weight_ = 0;
  }
  if (minibatches_ == 0) {
    // What is accumulated goes into checkpoints, so that nothing of the last step may be left in it.
    if (accumulate_ > 1) std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    for (auto& [parameter, touched] : touched_) touched = accumulate_ > 1;
    codec().BeginStep({Epoch(), comm_.rank(), comm_.world_size()});
  }
  ++minibatches_;
  weight_ += frame_weight;
  for (Layer& layer : layers_) layer.sent = layer.reduced = false;
}

void GradientExchange::TakeFactors(nn::Parameter& weight, nn::Parameter* bias, const nn::GradientFactors& factors) {
  if (factors.g.rows() == 0) return;
  nn::FactorProduct(factors, 0, Touch(weight) ? 1.0f : 0.0f, Target(weight));
  if (bias != nullptr) nn::BiasGradient(factors, 1.0f, Touch(*bias) ? 1.0f : 0.0f, Target(*bias));
}

void GradientExchange::TakeDense(nn::Parameter& parameter, ConstMatrixView gradient) {
  if (Touch(parameter)) {
    AddScaled(1.0f, gradient, Target(parameter));
  } else {
    Scale(1.0f, gradient, Target(parameter));
  }
}

void GradientExchange::LayerDone(size_t layer) {
  if (!complete()) return;
  const double begin = comm_.Now();
  Send(layer);
  for (size_t i = layers_.size(); i-- > layer;) {
    if (layers_[i].sent && !layers_[i].reduced && Arrived(i)) Reduce(i);
  }
  seconds_ += comm_.Now() - begin;
}

bool GradientExchange::Finish() {
  const double begin = comm_.Now();
  for (size_t i = layers_.size(); i-- > 0;) Send(i);
  for (size_t i = layers_.size(); i-- > 0;) Reduce(i);
  for (size_t i = layers_.size(); i-- > 0;) Gather(i);
  const bool sound = codec().EndStep();
  ++steps_;
  minibatches_ = accumulate_;  // an exchange begun early is complete too
  seconds_ += comm_.Now() - begin;
  return sound;
}

// A layer that had no frames, or was not reached, has a gradient of zero.
void GradientExchange::ClearUntouched(const Layer& layer) {
  for (nn::Parameter* p : layer.parameters) {
    if (!Touch(*p)) std::fill_n(gradient_.data() + p->offset, p->value.size(), 0.0f);
  }
}

void GradientExchange::Send(size_t index) {
  Layer& layer = layers_[index];
  if (layer.sent || layer.parameters.empty()) return;
  layer.sent = true;
  ClearUntouched(layer);
  for (int r = 0; r < comm_.world_size(); ++r) {
    Code code;
    AppendBytes(std::as_bytes(std::span(&weight_, 1)), code);
    for (nn::Parameter* p : layer.parameters) {
      const MatrixView part = Part(Target(*p), r);
      Encode(*p, part, Memory(memory_, *p, r), code);
    }
    if (r == comm_.rank()) {
      layer.own_code = std::move(code);
    } else {
      comm_.Send(r, PartTag(index), code);
    }
  }
}

bool GradientExchange::Arrived(size_t index) {
  for (int r = 0; r < comm_.world_size(); ++r) {
    if (r != comm_.rank() && !comm_.Poll(r, PartTag(index))) return false;
  }
  return true;
}

void GradientExchange::Reduce(size_t index) {
  Layer& layer = layers_[index];
  if (layer.reduced || layer.parameters.empty()) return;
  layer.reduced = true;
  std::vector<Code> codes(parts_.size());
  std::vector<size_t> at(parts_.size());
  double weight = 0;
  for (int r = 0; r < comm_.world_size(); ++r) {
    const auto i = static_cast<size_t>(r);
    codes[i] = r == comm_.rank() ? std::move(layer.own_code) : comm_.Receive(r, PartTag(index)).bytes;
    double its_weight = 0;
    at[i] = TakeBytes(codes[i], std::as_writable_bytes(std::span(&its_weight, 1)));
    weight += its_weight;
  }
  const auto factor = static_cast<float>(weight > 0 ? total_weight_ / weight : 0.0);
  Code sum_code;
  for (nn::Parameter* p : layer.parameters) {
    SumParts(*p, codes, at, factor);
    const MatrixView mine = Part(Target(*p), comm_.rank());
    const size_t begin = sum_code.size();
    EncodeSum(*p, parts_[0], sum_code);
    DecodeSum(*p, std::span(sum_code).subspan(begin), mine);
  }
  for (int r = 0; r < comm_.world_size(); ++r) {
    if (r != comm_.rank()) comm_.Send(r, SumTag(index), sum_code);
  }
}

// Leaves the sum over ranks of p's part in parts_[0]: in the order of the communicator's tree.
void GradientExchange::SumParts(nn::Parameter& p, const std::vector<Code>& codes, std::vector<size_t>& at,
                                float factor) {
  const MatrixView mine = Part(Target(p), comm_.rank());
  for (size_t r = 0; r < parts_.size(); ++r) {
    parts_[r].Resize(mine.rows(), mine.cols());
    at[r] += Decode(p, std::span(codes[r]).subspan(at[r]), parts_[r]);
  }
  for (size_t distance = 1; distance < parts_.size(); distance *= 2) {
    for (size_t r = 0; r + distance < parts_.size(); r += 2 * distance) {
      AddScaled(1.0f, parts_[r + distance], parts_[r]);
      Handled(Handling::kAdd, parts_[r]);
    }
  }
  if (factor != 1.0f) Scale(factor, parts_[0], parts_[0]);
}

void GradientExchange::Gather(size_t index) {
  const Layer& layer = layers_[index];
  if (layer.parameters.empty()) return;
  for (int r = 0; r < comm_.world_size(); ++r) {
    if (r == comm_.rank()) continue;
    const comm::Message message = comm_.Receive(r, SumTag(index));
    std::span<const std::byte> code = message.bytes;
    for (nn::Parameter* p : layer.parameters) {
      const MatrixView part = Part(Target(*p), r);
      code = code.subspan(DecodeSum(*p, code, part));
    }
    if (!code.empty()) {
      Throw<InputError>("a sum of gradients from rank {} has {} bytes too many: damaged on its way", r, code.size());
    }
  }
}

size_t GradientExchange::copy_bytes() const {
  int64_t widest = 0;
  for (const nn::Parameter* p : network_.parameters()) widest = std::max(widest, p->value.size());
  const size_t planes = 1 + memory_.size() + sum_memory_.size();
  return (planes * gradient_.size() + static_cast<size_t>(widest)) * sizeof(float);
}

void GradientExchange::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  for (size_t k = 0; k < memory_.size(); ++k) {
    writer.Add(fmt::format("{}.memory{}", prefix, k), std::span<const float>(memory_[k]));
  }
  for (size_t k = 0; k < sum_memory_.size(); ++k) {
    writer.Add(fmt::format("{}.sum-memory{}", prefix, k), std::span<const float>(sum_memory_[k]));
  }
  const int64_t counts[] = {steps_, complete() ? 0 : minibatches_};
  writer.Add(prefix + ".counts", std::span<const int64_t>(counts));
  if (counts[1] > 0) {
    writer.Add(prefix + ".accumulated", std::span<const float>(gradient_));
    const double weights[] = {weight_, total_weight_};
    writer.Add(prefix + ".weight", std::span<const double>(weights));
  }
  codec_->SaveState(writer, prefix + ".codec");
}

void GradientExchange::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  for (size_t k = 0; k < memory_.size(); ++k) LoadValues(reader, fmt::format("{}.memory{}", prefix, k), memory_[k]);
  for (size_t k = 0; k < sum_memory_.size(); ++k) {
    LoadValues(reader, fmt::format("{}.sum-memory{}", prefix, k), sum_memory_[k]);
  }
  const std::vector<int64_t> counts = reader.ReadInts(prefix + ".counts");
  steps_ = counts.at(0);
  minibatches_ = static_cast<int>(counts.at(1));
  weight_ = 0;
  if (minibatches_ > 0) {
    LoadValues(reader, prefix + ".accumulated", gradient_);
    weight_ = reader.ReadDoubles(prefix + ".weight").at(0);
    for (auto& [parameter, touched] : touched_) touched = true;
  }
  codec_->LoadState(reader, prefix + ".codec");
}

void GradientExchange::LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) {
  ResetState();
  const auto size = static_cast<double>(comm_.world_size());
  std::vector<float> theirs(gradient_.size());
  const auto add = [&](const SafetensorsReader& reader, const std::string& name, double share, std::span<float> sum) {
    if (!reader.Has(name)) return;
    LoadValues(reader, name, theirs);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<float>(share) * theirs[i];
  };
  std::fill(gradient_.begin(), gradient_.end(), 0.0f);
  for (const SafetensorsReader& reader : ranks) {
    for (size_t k = 0; k < memory_.size(); ++k)
      add(reader, fmt::format("{}.memory{}", prefix, k), 1 / size, memory_[k]);
    // What a sum held back is a gradient like those of the workers.
    if (!memory_.empty()) add(reader, prefix + ".sum-memory0", 1 / size, memory_[0]);
    if (!reader.Has(prefix + ".weight")) continue;
    const std::vector<double> weights = reader.ReadDoubles(prefix + ".weight");
    weight_ += weights.at(0) / size;
    add(reader, prefix + ".accumulated", weights.at(1) / total_weight_ / size, gradient_);
  }
  const std::vector<int64_t> counts = ranks[0].ReadInts(prefix + ".counts");
  steps_ = counts.at(0);
  minibatches_ = static_cast<int>(counts.at(1));
  for (auto& [parameter, touched] : touched_) touched = minibatches_ > 0;
  codec_->LoadState(ranks[0], prefix + ".codec");
}

void GradientExchange::ResetState() {
  for (std::vector<float>& plane : memory_) std::fill(plane.begin(), plane.end(), 0.0f);
  for (std::vector<float>& plane : sum_memory_) std::fill(plane.begin(), plane.end(), 0.0f);
  minibatches_ = 0;
  weight_ = 0;
}

}  // namespace antiphon::parallel
