#include "parallel/gradient_exchange.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/finally.h"
#include "kernels/elementwise.h"

namespace antiphon::parallel {
namespace {

using Handling = comm::Handling;

constexpr int kFirstTag = 1 << 16;  // two per layer

int PartTag(size_t layer) { return kFirstTag + 2 * static_cast<int>(layer); }
int SumTag(size_t layer) { return PartTag(layer) + 1; }

}  // namespace

GradientExchange::GradientExchange(const Config& codec, const ExchangeOptions& options, const Replica& replica)
    : network_(*replica.network),
      comm_(*replica.comm),
      exact_(MakeCodec(Config())),
      codec_(MakeCodec(codec)),
      codec_name_(CodecName(codec)),
      options_(options),
      plan_(replica.plan),
      total_weight_(FullWeight()),
      share_(replica.share),
      layers_(network_.num_layers()),
      memory_(static_cast<size_t>(codec_->num_planes()), std::vector<float>(network_.num_values(), 0.0f)),
      sum_memory_(static_cast<size_t>(codec_->num_sum_planes()), std::vector<float>(network_.num_values(), 0.0f)),
      parts_(static_cast<size_t>(comm_.world_size())) {
  if (codec_->momentum() > 0 && replica.optimizer->momentum() > 0) {
    Throw<UsageError>(
        "{}: codec '{}' with momentum {:g} and an optimizer with momentum {:g} would count each gradient's past twice: "
        "set optimizer.momentum = 0, or leave the codec's out",
        codec.Where("momentum"), codec_name_, codec_->momentum(), replica.optimizer->momentum());
  }
  RequireDivisible(codec);
  AddLayers();
}

void GradientExchange::RequireDivisible(const Config& codec) const {
  CHECK_EQ(share_ != nullptr, options_.divide != Divide::kNothing);
  if (share_ != nullptr && codec_->by_columns()) {
    Throw<UsageError>(
        "{}: codec '{}' cuts matrices by columns, but workers that divide the optimiser's state keep whole rows: take "
        "another codec, or parallel.{} = 'nothing'",
        codec.Where("type"), codec_name_, kDivideKey);
  }
  if (options_.divide == Divide::kGradients && options_.accumulate > 1) {
    Throw<UsageError>(
        "parallel.{} = 'gradients' with accumulate = {}: gradients that are accumulated stay whole at each worker; "
        "take 'optimizer'",
        kDivideKey, options_.accumulate);
  }
}

void GradientExchange::AddLayers() {
  size_t widest = 0;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::span<const float> values = network_.values({i, i + 1});
    const int64_t first = values.empty() ? 0 : values.data() - network_.values().data();
    widest = std::max(widest, values.size());
    for (nn::Parameter* p : network_.layer(i).parameters()) {
      if (p->learning_rate_factor == 0) continue;
      layers_[i].parameters.push_back(p);
      touched_[p] = false;
      firsts_[p] = options_.divide == Divide::kGradients ? first : 0;
    }
  }
  const std::span<nn::Parameter* const> all = network_.parameters();
  for (size_t i = 0; i < all.size(); ++i) numbers_[all[i]] = i;
  const bool divided = options_.divide == Divide::kGradients;
  gradient_.resize(divided ? widest : network_.num_values());
  if (divided) own_.resize(share_->stepped().num_values);
}

// Of an exchange in which all minibatches are full.
double GradientExchange::FullWeight() const {
  return std::max(1.0, static_cast<double>(plan_.minibatch_frames)) * options_.accumulate * comm_.world_size();
}

// Position in the run when the exchange under way began.
double GradientExchange::Epoch() const {
  if (plan_.steps_per_epoch == 0) return 0;
  return static_cast<double>(steps_ * options_.accumulate) / static_cast<double>(plan_.steps_per_epoch);
}

Codec& GradientExchange::codec() {
  if (options_.codec_start_epochs <= 0 || plan_.steps_per_epoch == 0) return *codec_;
  return Epoch() < options_.codec_start_epochs ? *exact_ : *codec_;
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

MatrixView GradientExchange::Part(const nn::Parameter& p, MatrixView matrix, int r) const {
  if (share_ != nullptr) {
    const RowShare rows = Rows(p, r);
    return matrix.Rows(rows.first_row, rows.rows);
  }
  const auto range = [&](int64_t size, int64_t unit) {
    const auto units = static_cast<size_t>((size + unit - 1) / unit);
    const int64_t first = std::min(size, static_cast<int64_t>(comm_.Part(r, units)) * unit);
    const int64_t last = std::min(size, static_cast<int64_t>(comm_.Part(r + 1, units)) * unit);
    return std::pair(first, last - first);
  };
  if (matrix.rows() > 1 && !codec_->by_columns()) {
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
    views.push_back(Part(p, {plane.data() + p.offset, p.value.rows(), p.value.cols()}, r));
  }
  return views;
}

MatrixView GradientExchange::Target(const nn::Parameter& parameter) {
  const int64_t at = parameter.offset - firsts_.at(&parameter);
  return {gradient_.data() + at, parameter.value.rows(), parameter.value.cols()};
}

MatrixView GradientExchange::SumTarget(const nn::Parameter& parameter) {
  if (sum_.empty()) return Target(parameter);
  return {sum_.data() + parameter.offset, parameter.value.rows(), parameter.value.cols()};
}

MatrixView GradientExchange::OwnSum(const nn::Parameter& p) {
  if (own_.empty()) return Part(p, SumTarget(p), comm_.rank());
  const RowShare rows = Rows(p, comm_.rank());
  return {own_.data() + rows.offset, rows.rows, p.value.cols()};
}

ConstMatrixView GradientExchange::own_sum(size_t number) { return OwnSum(*network_.parameters()[number]); }

// Whether the parameter's gradient holds something of this step already; from now on it does.
bool GradientExchange::Touch(const nn::Parameter& parameter) { return std::exchange(touched_.at(&parameter), true); }

void GradientExchange::BeginMinibatch(double frame_weight) {
  if (minibatches_ == options_.accumulate) {
    minibatches_ = 0;
    weight_ = 0;
  }
  if (minibatches_ == 0) {
    // What is accumulated goes into checkpoints, so that nothing of the last step may be left in it.
    if (options_.accumulate > 1) std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    for (auto& [parameter, touched] : touched_) touched = options_.accumulate > 1;
    total_weight_ = FullWeight();  // of those that are left
  }
  if (comm_.survivors() != nullptr) sum_.resize(network_.num_values());
  ++minibatches_;
  weight_ += frame_weight;
  if (complete()) BeginExchange();
}

void GradientExchange::BeginExchange() {
  loss_.reset();
  parts_.resize(static_cast<size_t>(comm_.world_size()));
  codec().BeginStep({Epoch(), comm_.rank(), comm_.world_size()});
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

// Who is told of a loss here finishes its backward pass first, as the others need its gradient.
void GradientExchange::LayerDone(size_t layer) {
  if (!complete() || loss_) return;
  const double begin = comm_.Now();
  try {
    Start(layer);
  } catch (const comm::PeerLost& e) {
    if (comm_.survivors() == nullptr) throw;
    loss_ = e;
  }
  seconds_ += comm_.Now() - begin;
}

void GradientExchange::Start(size_t layer) {
  Send(layer);
  for (size_t i = layers_.size(); i-- > layer;) {
    if (layers_[i].sent && !layers_[i].reduced && Arrived(i)) Reduce(i);
  }
}

// Of the gradients that the ranks have; what an earlier attempt has sent goes by other numbers of ranks.
void GradientExchange::Exchange(bool again) {
  if (again) BeginExchange();
  if (loss_) throw comm::PeerLost(*loss_);
  for (size_t i = layers_.size(); i-- > 0;) Send(i);
  for (size_t i = layers_.size(); i-- > 0;) Reduce(i);
  for (size_t i = layers_.size(); i-- > 0 && share_ == nullptr;) Gather(i);
}

bool GradientExchange::Finish() {
  const double begin = comm_.Now();
  bool again = !complete();  // an exchange begun early
  finishing_ = true;
  const Finally finished([this] { finishing_ = false; });
  comm_.Together([&] { Exchange(std::exchange(again, true)); });
  const bool sound = codec().EndStep(SumsAreUsable());
  ++steps_;
  minibatches_ = options_.accumulate;  // an exchange begun early is complete too
  seconds_ += comm_.Now() - begin;
  return sound;
}

// The same on all ranks, of which each has decoded its own rows alone where they divide the work.
bool GradientExchange::SumsAreUsable() {
  const bool mine = codec().sums_are_usable();
  if (share_ == nullptr || !codec().judges_sums()) return mine;
  double unusable = mine ? 0 : 1;
  comm_.AllReduce(std::span<double>(&unusable, 1));
  return unusable == 0;
}

// A layer that had no frames, or was not reached, has a gradient of zero.
void GradientExchange::ClearUntouched(const Layer& layer) {
  for (nn::Parameter* p : layer.parameters) {
    if (!Touch(*p)) std::fill_n(Target(*p).data(), p->value.size(), 0.0f);
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
      const MatrixView part = Part(*p, Target(*p), r);
      Encode(*p, part, Memory(memory_, *p, r), code);
    }
    if (r == comm_.rank()) {
      layer.own_code = std::move(code);
    } else {
      comm_.SendAway(r, PartTag(index), code);
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
    const MatrixView mine = OwnSum(*p);
    const size_t begin = sum_code.size();
    EncodeSum(*p, parts_[0], sum_code);
    DecodeSum(*p, std::span(sum_code).subspan(begin), mine);
  }
  if (share_ != nullptr) return;
  for (int r = 0; r < comm_.world_size(); ++r) {
    if (r != comm_.rank()) comm_.Send(r, SumTag(index), sum_code);
  }
}

// Leaves the sum over ranks of p's part in parts_[0]: in the order of the communicator's tree.
void GradientExchange::SumParts(nn::Parameter& p, const std::vector<Code>& codes, std::vector<size_t>& at,
                                float factor) {
  const MatrixView mine = OwnSum(p);
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
      const MatrixView part = Part(*p, SumTarget(*p), r);
      code = code.subspan(DecodeSum(*p, code, part));
    }
    if (!code.empty()) {
      Throw<InputError>("a sum of gradients from rank {} has {} bytes too many: damaged on its way", r, code.size());
    }
  }
}

std::span<float> GradientExchange::RowsOf(nn::Parameter& p, int r) const {
  const RowShare rows = Rows(p, r);
  return {p.value.data() + rows.first_row * p.value.cols(), static_cast<size_t>(rows.rows * p.value.cols())};
}

void GradientExchange::GatherValues() {
  const double begin = comm_.Now();
  for (size_t i = layers_.size(); i-- > 0;) {
    if (!layers_[i].parameters.empty()) GatherValues(i);
  }
  network_.MarkChanged();
  seconds_ += comm_.Now() - begin;
}

void GradientExchange::GatherValues(size_t index) {
  const std::vector<nn::Parameter*>& parameters = layers_[index].parameters;
  const auto rows_of = [&](nn::Parameter& p, int r) { return std::as_writable_bytes(RowsOf(p, r)); };
  Code mine;
  for (nn::Parameter* p : parameters) AppendBytes(rows_of(*p, comm_.rank()), mine);
  for (int r = 0; r < comm_.world_size() && !mine.empty(); ++r) {
    if (r != comm_.rank()) comm_.Send(r, SumTag(index), mine);
  }
  for (int r = 0; r < comm_.world_size(); ++r) {
    size_t expected = 0;
    for (nn::Parameter* p : parameters) expected += rows_of(*p, r).size();
    if (r == comm_.rank() || expected == 0) continue;
    const comm::Message message = comm_.Receive(r, SumTag(index));
    if (message.bytes.size() != expected) {
      Throw<InputError>("values from rank {} have {} bytes, expected {}: damaged on their way", r, message.bytes.size(),
                        expected);
    }
    size_t at = 0;
    for (nn::Parameter* p : parameters) at += TakeBytes(std::span(message.bytes).subspan(at), rows_of(*p, r));
    comm_.Handled(Handling::kCopy, expected);
  }
}

size_t GradientExchange::copy_bytes() const {
  int64_t widest = 0;
  for (const nn::Parameter* p : network_.parameters()) widest = std::max(widest, p->value.size());
  const size_t planes = 1 + memory_.size() + sum_memory_.size();
  const size_t whole = network_.num_values();
  const bool second = keeps_nothing() && comm_.losses() != nullptr && comm_.losses()->survives_losses();
  return (gradient_.size() + (second ? whole : 0) + own_.size() + (planes - 1) * whole + static_cast<size_t>(widest)) *
         sizeof(float);
}

}  // namespace antiphon::parallel
