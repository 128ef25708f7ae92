#include "parallel/striped_network.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/random.h"
#include "kernels/elementwise.h"

namespace antiphon::parallel {
namespace {

constexpr uint64_t kLinkSeed = 0x6c696e6b;
// A comparison reads all values that are held in common.
constexpr int64_t kUpdatesPerComparison = 16;

// Its outputs are no single unit's below.
bool MixesUnits(nn::Layer& layer) {
  return std::ranges::any_of(layer.parameters(),
                             [](const nn::Parameter* p) { return p->whole.rows > 1 && p->whole.cols > 1; });
}

// Sends what a layer passes down before the layer's gradients are computed, so that it travels meanwhile.
class SendFirst : public nn::GradientSink {
 public:
  SendFirst(std::function<void()> send, nn::GradientSink& sink) : send_(std::move(send)), sink_(sink) {}
  void TakeFactors(nn::Parameter& weight, nn::Parameter* bias, const nn::GradientFactors& factors) override {
    Send();
    sink_.TakeFactors(weight, bias, factors);
  }
  void TakeDense(nn::Parameter& parameter, ConstMatrixView gradient) override {
    Send();
    sink_.TakeDense(parameter, gradient);
  }
  void Send() {
    if (send_) std::exchange(send_, nullptr)();
  }

 private:
  std::function<void()> send_;
  nn::GradientSink& sink_;
};

}  // namespace

StripedNetwork::StripedNetwork(nn::Network& part, const ModelParts& parts, RankGroup& group,
                               const StripesOptions& options)
    : part_(part),
      parts_(parts),
      group_(group),
      cost_(part),
      held_(parts.Of(group.index())),
      masks_(held_.size()),
      links_(held_.size()) {
  const size_t front = FrontLayers(part, options.data_parallel_layers, group.size());
  if (front > 0) front_.emplace(part, front, group);
  if (options.sparse_links >= 0) DrawLinks(options.sparse_links);
  FindShared();
  ApplyMasks();
}

// Units of the input, and of a layer held by all, belong to nobody.
void StripedNetwork::DrawLinks(int links) {
  const size_t none = held_.size();
  size_t below = none;       // the divided layer whose units these are
  bool as_they_are = false;  // and nothing but copies of frames lies between
  for (size_t i = 0; i < held_.size(); ++i) {
    nn::Layer& layer = part_.layer(i);
    if (!divided(i)) {
      if (MixesUnits(layer)) below = none;
      as_they_are = as_they_are && (UnitOf(i) || is_splice(i));
      continue;
    }
    if (below != none) {
      const int copies = is_splice(i - 1) ? layer.in_dim() / part_.layer(i - 1).in_dim() : 1;
      SparseLinks drawn(layer.in_dim() / copies, group_.size(), links, MixSeed(kLinkSeed, i));
      masks_[i] = drawn.InputsOf(group_.index(), copies);
      if (as_they_are) links_[below].emplace(std::move(drawn));
    }
    below = i;
    as_they_are = true;
  }
}

void StripedNetwork::FindShared() {
  for (size_t i = 0; i < held_.size(); ++i) {
    if (divided(i)) continue;
    for (const nn::Parameter* p : part_.layer(i).parameters()) {
      shared_.push_back(part_.values().subspan(static_cast<size_t>(p->offset), static_cast<size_t>(p->value.size())));
    }
  }
}

std::optional<size_t> StripedNetwork::UnitOf(size_t layer) const {
  if (divided(layer)) return layer;
  if (layer > 0 && part_.absorbs_above(layer - 1) && divided(layer - 1)) return layer - 1;
  return std::nullopt;
}

MatrixView StripedNetwork::Outputs(const nn::ExecContext& context, ConstMatrixView x, bool gather_top,
                                   nn::Workspace& ws) {
  const size_t layers = part_.num_layers();
  ConstMatrixView below = front_ ? front_->Forward(context, x, ws) : x;
  if (front_ && !gather_top) front_->CountForward(ws);
  MatrixView own;  // what this rank computed of the layer below
  MatrixView y;
  for (size_t i = lowest_striped(); i < layers; ++i) {
    nn::Workspace& child = ws.Child(i);
    if (i > 0 && part_.absorbs_above(i - 1)) {
      child.x = child.y = own;
      continue;
    }
    const nn::Layer& layer = part_.layer(i);
    own = y = ws.Float(i, layer.OutputRows(context, below.rows()), layer.out_dim());
    layer.Forward(context, below, own, child);
    if (!gather_top) Count(cost_.forward_flops(i), own.rows());
    if (divided(i) && (gather_top || i + 1 < layers)) {
      y = ws.Float(layers + i, own.rows(), layer.whole_out_dim());
      Gather(own, i, y);
    }
    below = y;
  }
  if (!part_.layer(layers - 1).properties().needs_output || y.data() != own.data()) return y;
  // The caller may overwrite what he gets.
  const MatrixView copy = ws.Float(2 * layers, y.rows(), y.cols());
  std::copy_n(y.data(), y.size(), copy.data());
  return copy;
}

MatrixView StripedNetwork::Logits(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws) {
  return Outputs(context, x, true, ws);
}

nn::LossResult StripedNetwork::Forward(const nn::ExecContext& context, ConstMatrixView x,
                                       const nn::LossTargets& targets, nn::Workspace& ws) {
  derivative_ = Outputs(context, x, false, ws);
  if (!top_divided()) return nn::SoftmaxCrossEntropy(derivative_, targets, derivative_);
  return StripedSoftmaxCrossEntropy(group_, derivative_, held_.back().first, targets, derivative_);
}

void StripedNetwork::Gather(ConstMatrixView mine, size_t layer, MatrixView y) {
  if (links_[layer]) return GatherSeen(mine, layer, y);
  const std::span<const float> values(mine.data(), static_cast<size_t>(mine.size()));
  for (int p = 0; p < group_.size(); ++p) {
    if (p != group_.index()) group_.SendTo(p, values);
  }
  for (int p = 0; p < group_.size(); ++p) {
    const nn::OutputRange range = parts_.Of(p)[layer];
    const auto place = [&](std::span<const float> theirs) {
      CHECK_EQ(std::ssize(theirs), y.rows() * range.count);
      for (int64_t n = 0; n < y.rows(); ++n) {
        std::copy_n(theirs.data() + n * range.count, range.count, y.Row(n).data() + range.first);
      }
    };
    if (p == group_.index()) {
      place(values);
    } else {
      group_.ReceiveFrom(p, place);
    }
  }
}

// What this rank does not see is 0, as are the weights that it would meet.
void StripedNetwork::GatherSeen(ConstMatrixView mine, size_t layer, MatrixView y) {
  const SparseLinks& links = *links_[layer];
  const nn::OutputRange own = held_[layer];
  for (int p = 0; p < group_.size(); ++p) {
    if (p == group_.index()) continue;
    PickColumns(mine, links.Seen(group_.index(), p), own.first, message_);
    group_.SendTo(p, message_);
  }
  std::fill_n(y.data(), y.size(), 0.0f);
  for (int64_t n = 0; n < y.rows(); ++n) std::copy_n(mine.Row(n).data(), own.count, y.Row(n).data() + own.first);
  for (int p = 0; p < group_.size(); ++p) {
    if (p == group_.index()) continue;
    group_.ReceiveFrom(
        p, [&](std::span<const float> theirs) { AddToColumns(theirs, links.Seen(p, group_.index()), 0, y); });
  }
}

size_t StripedNetwork::LowestThatLearns() {
  size_t lowest = 0;
  const auto learns = [](const nn::Parameter* p) { return p->learning_rate_factor != 0; };
  while (lowest < part_.num_layers() && std::ranges::none_of(part_.layer(lowest).parameters(), learns)) ++lowest;
  return lowest;
}

MatrixView StripedNetwork::NextBuffer(int64_t rows, int64_t cols, Descent& descent, nn::Workspace& ws) {
  descent.turn = 1 - descent.turn;
  return ws.Derivative(descent.turn, rows, cols);
}

void StripedNetwork::Backward(const nn::ExecContext& context, nn::Workspace& ws, nn::GradientSink& sink,
                              optim::Optimizer& optimizer) {
  const size_t lowest = LowestThatLearns();
  Descent descent{derivative_, top_divided()};
  ConstMatrixView& g = descent.g;
  for (size_t i = part_.num_layers(); i-- > std::max(lowest, lowest_striped());) {
    nn::Layer& layer = part_.layer(i);
    const auto unit = UnitOf(i);
    if (unit && !descent.own_columns) {
      g = g.Cols(held_[*unit].first, held_[*unit].count);
      descent.own_columns = true;
    }
    if (unit && !divided(i)) {
      const MatrixView dx = NextBuffer(g.rows(), g.cols(), descent, ws);
      ActivationBackward(layer.properties().activation, ws.Child(i).y, g, dx);
      g = dx;
    } else if (divided(i) && i > lowest) {
      i = PassDivided(context, i, ws, sink, descent);
    } else {
      const MatrixView dx = i > lowest ? NextBuffer(ws.Child(i).x.rows(), layer.in_dim(), descent, ws) : MatrixView();
      layer.Backward(context, g, ws.Child(i), dx, sink);
      Count(cost_.backward_flops(i), g.rows());
      g = dx;
    }
  }
  if (lowest >= lowest_striped()) return;
  front_->Backward(context, descent.own_rows ? g : front_->OwnRows(g, ws), ws, sink, optimizer);
}

// The sum over ranks commutes with adding up a splice's copies, which are so many times as wide.
size_t StripedNetwork::PassDivided(const nn::ExecContext& context, size_t i, nn::Workspace& ws, nn::GradientSink& sink,
                                   Descent& descent) {
  const size_t layers = part_.num_layers();
  nn::Layer& layer = part_.layer(i);
  const int64_t rows = descent.g.rows();
  const size_t lowest = is_splice(i - 1) ? i - 1 : i;
  const auto below = UnitOf(lowest - 1);
  const bool at_front = front_ && lowest == front_->layers();
  const MatrixView dx = ws.Float(2 * layers + 1, rows, layer.in_dim());
  MatrixView part = dx;
  SendFirst early(
      [&] {
        Count(cost_.forward_flops(i), rows);  // as much as what is passed down
        if (lowest < i) {
          nn::Workspace& child = ws.Child(lowest);
          part = ws.Float(2 * layers + 2, child.x.rows(), part_.layer(lowest).in_dim());
          part_.layer(lowest).Backward(context, dx, child, part, sink);
        }
        if (below) SendColumns(part, *below);
        if (at_front) front_->SendDerivative(part);
      },
      sink);
  layer.Backward(context, descent.g, ws.Child(i), dx, early);
  early.Send();
  Count(cost_.backward_flops(i) - cost_.forward_flops(i), rows);
  descent.own_columns = below.has_value();
  if (below) {
    const MatrixView sum = NextBuffer(part.rows(), held_[*below].count, descent, ws);
    SumColumns(part, *below, sum);
    descent.g = sum;
  } else if (at_front) {
    descent.g = front_->SumDerivative(part, ws);
    descent.own_rows = true;
  } else {
    group_.AllReduce(std::span(part.data(), static_cast<size_t>(part.size())));
    descent.g = part;  // which the layer below, held by all, does not write
  }
  return lowest;
}

void StripedNetwork::SendColumns(ConstMatrixView part, size_t unit) {
  for (int p = 0; p < group_.size(); ++p) {
    if (p == group_.index()) continue;
    if (links_[unit]) {
      PickColumns(part, links_[unit]->Seen(p, group_.index()), 0, message_);
      group_.SendTo(p, message_);
      continue;
    }
    const nn::OutputRange range = parts_.Of(p)[unit];
    message_.resize(static_cast<size_t>(part.rows() * range.count));
    for (int64_t n = 0; n < part.rows(); ++n) {
      std::copy_n(part.Row(n).data() + range.first, range.count, message_.data() + n * range.count);
    }
    group_.SendTo(p, message_);
  }
}

void StripedNetwork::SumColumns(ConstMatrixView part, size_t unit, MatrixView sum) {
  const nn::OutputRange mine = held_[unit];
  if (links_[unit]) return SumSeen(part, unit, sum);
  for (int p = 0; p < group_.size(); ++p) {
    const auto add = [&](const float* from, int64_t stride) {
      for (int64_t n = 0; n < sum.rows(); ++n, from += stride) {
        float* row = sum.Row(n).data();
        if (p == 0) {
          std::copy_n(from, mine.count, row);
        } else {
          for (int c = 0; c < mine.count; ++c) row[c] += from[c];
        }
      }
    };
    if (p == group_.index()) {
      add(part.data() + mine.first, part.cols());
    } else {
      group_.ReceiveFrom(p, [&](std::span<const float> theirs) {
        CHECK_EQ(std::ssize(theirs), sum.size());
        add(theirs.data(), mine.count);
      });
    }
  }
}

// In the order of the group, as all sums are.
void StripedNetwork::SumSeen(ConstMatrixView part, size_t unit, MatrixView sum) {
  const nn::OutputRange mine = held_[unit];
  for (int64_t n = 0; n < sum.rows(); ++n) std::fill_n(sum.Row(n).data(), mine.count, 0.0f);  // rows may be padded
  for (int p = 0; p < group_.size(); ++p) {
    if (p == group_.index()) {
      AddScaled(1.0f, part.Cols(mine.first, mine.count), sum);
      continue;
    }
    group_.ReceiveFrom(p, [&](std::span<const float> theirs) {
      AddToColumns(theirs, links_[unit]->Seen(group_.index(), p), mine.first, sum);
    });
  }
}

void StripedNetwork::Count(double flops_per_row, int64_t rows) const {
  const double flops = flops_per_row * static_cast<double>(rows);
  if (flops > 0) group_.comm().ComputeFlops(flops);
}

void StripedNetwork::AfterUpdate(double change_scale) {
  ApplyMasks();
  if (shared_.empty()) return;
  struct Said {
    double change_scale;
    uint64_t values;
  } mine{change_scale, 0};
  if (++updates_ % kUpdatesPerComparison == 0) {
    for (const std::span<float> values : shared_) mine.values = MixSeed(mine.values, Checksum(std::as_bytes(values)));
  }
  float bits[sizeof(Said) / sizeof(float)];
  std::memcpy(bits, &mine, sizeof(Said));
  bool same_scale = true, same_values = true;
  std::optional<Said> first;
  for (const std::vector<float>& theirs : group_.Exchange(bits)) {
    Said said;
    std::memcpy(&said, theirs.data(), sizeof(Said));
    if (!first) first = said;
    // NaN is like itself.
    same_scale =
        same_scale && std::bit_cast<uint64_t>(said.change_scale) == std::bit_cast<uint64_t>(first->change_scale);
    same_values = same_values && said.values == first->values;
  }
  if (same_scale && same_values) return;
  if (same_scale && group_.index() == 0 && !std::exchange(warned_, true)) {
    log::Warn(
        "after {} updates the layers that {} ranks hold in common are not the same bits on all of them: their machines "
        "compute differently, and results depend on which take part. From here on all take the first rank's values "
        "whenever a comparison, after each {} updates, finds a difference",
        updates_, group_.size(), kUpdatesPerComparison);
  }
  BroadcastShared();
}

void StripedNetwork::BroadcastShared() {
  message_.clear();
  for (const std::span<float> values : shared_) message_.insert(message_.end(), values.begin(), values.end());
  group_.Broadcast(0, std::as_writable_bytes(std::span(message_)));
  const float* from = message_.data();
  for (const std::span<float> values : shared_) {
    std::copy_n(from, values.size(), values.data());
    from += values.size();
  }
  part_.MarkChanged();
}

size_t StripedNetwork::copy_bytes() const {
  size_t bytes = front_ ? front_->copy_bytes() : 0;
  for (const std::vector<uint8_t>& mask : masks_) bytes += mask.size();
  return bytes;
}

void StripedNetwork::ApplyMasks() {
  for (size_t i = 0; i < masks_.size(); ++i) {
    if (masks_[i].empty()) continue;
    nn::Parameter& weight = *part_.layer(i).parameters()[0];
    for (int64_t r = 0; r < weight.value.rows(); ++r) {
      const std::span<float> row = weight.value.Row(r);
      for (size_t c = 0; c < row.size(); ++c) {
        if (masks_[i][c] == 0) row[c] = 0;
      }
    }
    weight.MarkChanged();
  }
}

}  // namespace antiphon::parallel
