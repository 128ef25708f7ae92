#include "parallel/striped_network.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "kernels/elementwise.h"

namespace antiphon::parallel {
namespace {

constexpr uint64_t kLinkSeed = 0x6c696e6b;

bool CanBeDivided(const nn::Network& network, size_t layer, int parts) {
  const std::string& type = network.layer_type(layer);
  return (type == "affine" || type == "linear") && network.layer(layer).whole_out_dim() >= parts;
}

// Which weights of the rows that a rank holds it may use: those from inputs that it computes itself, and `links` drawn
// ones of each other rank's.
std::vector<uint8_t> DrawMask(nn::OutputRange rows, int in_dim, const RankGroup& group, int links, uint64_t seed) {
  std::vector<uint8_t> mask(static_cast<size_t>(int64_t{rows.count} * in_dim), 0);
  for (int r = 0; r < rows.count; ++r) {
    Rng rng(seed, static_cast<uint64_t>(rows.first + r));
    uint8_t* row = mask.data() + int64_t{r} * in_dim;
    for (int part = 0; part < group.size(); ++part) {
      const auto [first, width] = EvenRange(in_dim, part, group.size());
      if (part == group.index() || width <= links) {
        std::fill_n(row + first, width, uint8_t{1});
        continue;
      }
      for (int drawn = 0; drawn < links;) {
        uint8_t& weight = row[first + static_cast<int>(rng.Below(static_cast<uint64_t>(width)))];
        drawn += weight == 0 ? 1 : 0;
        weight = 1;
      }
    }
  }
  return mask;
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

int StripesOf(const Config& parallel, int workers) {
  const auto asked = static_cast<int>(parallel.Int("stripes").value_or(0));
  const int stripes = asked == 0 ? workers : asked;
  if (stripes < 1 || workers % stripes != 0) {
    Throw<UsageError>("{}: {} workers cannot be divided into groups of {} ranks, of which each holds the model",
                      parallel.Where("stripes"), workers, stripes);
  }
  return stripes;
}

std::unique_ptr<ModelParts> DivideByOutputs(const DivisionTask& task) {
  const int stripes = StripesOf(*task.parallel, task.comm->world_size());
  if (stripes == 1) return nullptr;
  std::vector<std::vector<nn::OutputRange>> parts(static_cast<size_t>(stripes));
  for (int position = 0; position < stripes; ++position) {
    for (size_t i = 0; i < task.outline->num_layers(); ++i) {
      parts[static_cast<size_t>(position)].push_back(
          CanBeDivided(*task.outline, i, stripes) ? EvenRange(task.outline->layer(i).whole_out_dim(), position, stripes)
                                                  : nn::OutputRange{});
    }
  }
  return std::make_unique<ModelParts>(std::move(parts));
}

StripedNetwork::StripedNetwork(nn::Network& part, const ModelParts& parts, RankGroup& group, int links)
    : part_(part), parts_(parts), group_(group), cost_(part), held_(parts.Of(group.index())), masks_(held_.size()) {
  bool hidden = false;
  for (size_t i = 0; i < held_.size(); ++i) {
    if (!divided(i)) continue;
    // The input layer's inputs belong to nobody.
    if (links >= 0 && hidden) {
      masks_[i] = DrawMask(held_[i], part.layer(i).in_dim(), group, links, MixSeed(kLinkSeed, i));
    }
    hidden = true;
  }
  ApplyMasks();
}

std::optional<size_t> StripedNetwork::UnitOf(size_t layer) const {
  if (divided(layer)) return layer;
  if (layer > 0 && part_.absorbs_above(layer - 1) && divided(layer - 1)) return layer - 1;
  return std::nullopt;
}

MatrixView StripedNetwork::Outputs(const nn::ExecContext& context, ConstMatrixView x, bool gather_top,
                                   nn::Workspace& ws) {
  const size_t layers = part_.num_layers();
  ConstMatrixView below = x;
  MatrixView own;  // what this rank computed of the layer below
  MatrixView y;
  for (size_t i = 0; i < layers; ++i) {
    nn::Workspace& child = ws.Child(i);
    if (i > 0 && part_.absorbs_above(i - 1)) {
      child.x = child.y = own;
      continue;
    }
    own = y = ws.Float(i, x.rows(), part_.layer(i).out_dim());
    part_.layer(i).Forward(context, below, own, child);
    if (!gather_top) Count(cost_.forward_flops(i), x.rows());
    if (divided(i) && (gather_top || i + 1 < layers)) {
      y = ws.Float(layers + i, x.rows(), part_.layer(i).whole_out_dim());
      Gather(own, i, y);
    }
    below = y;
  }
  if (!part_.layer(layers - 1).needs_output() || y.data() != own.data()) return y;
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

void StripedNetwork::Backward(const nn::ExecContext& context, nn::Workspace& ws, nn::GradientSink& sink) {
  const size_t layers = part_.num_layers();
  size_t lowest = 0;  // that learns
  const auto learns = [](const nn::Parameter* p) { return p->learning_rate_factor != 0; };
  while (lowest < layers && std::ranges::none_of(part_.layer(lowest).parameters(), learns)) ++lowest;
  auto buffer = [&, turn = size_t{0}](int64_t cols) mutable {
    turn = 1 - turn;
    return ws.Derivative(turn, derivative_.rows(), cols);
  };
  ConstMatrixView g = derivative_;
  bool own_columns = top_divided();  // g has only the columns that this rank computed
  for (size_t i = layers; i-- > lowest;) {
    nn::Layer& layer = part_.layer(i);
    const auto unit = UnitOf(i);
    if (unit && !own_columns) {
      g = g.Cols(held_[*unit].first, held_[*unit].count);
      own_columns = true;
    }
    if (unit && !divided(i)) {
      const MatrixView dx = buffer(g.cols());
      ActivationBackward(layer.activation(), ws.Child(i).y, g, dx);
      g = dx;
    } else if (!divided(i)) {
      const MatrixView dx = i > lowest ? buffer(layer.in_dim()) : MatrixView();
      layer.Backward(context, g, ws.Child(i), dx, sink);
      Count(cost_.backward_flops(i), g.rows());
      g = dx;
    } else if (i == lowest) {
      layer.Backward(context, g, ws.Child(i), {}, sink);
      Count(cost_.backward_flops(i), g.rows());
    } else {
      const MatrixView part = ws.Float(2 * layers + 1, g.rows(), layer.in_dim());
      const auto below = UnitOf(i - 1);
      SendFirst early(
          [&] {
            Count(cost_.forward_flops(i), g.rows());  // as much as what is passed down
            if (below) SendColumns(part, *below);
          },
          sink);
      layer.Backward(context, g, ws.Child(i), part, early);
      early.Send();
      Count(cost_.backward_flops(i) - cost_.forward_flops(i), g.rows());
      own_columns = below.has_value();
      if (below) {
        const MatrixView sum = buffer(held_[*below].count);
        SumColumns(part, *below, sum);
        g = sum;
      } else {
        group_.AllReduce(std::span(part.data(), static_cast<size_t>(part.size())));
        g = part;  // which the layer below, held by all, does not write
      }
    }
  }
}

void StripedNetwork::SendColumns(ConstMatrixView part, size_t unit) {
  for (int p = 0; p < group_.size(); ++p) {
    if (p == group_.index()) continue;
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

void StripedNetwork::Count(double flops_per_frame, int64_t frames) const {
  const double flops = flops_per_frame * static_cast<double>(frames);
  if (flops > 0) group_.comm().ComputeFlops(flops);
}

size_t StripedNetwork::mask_bytes() const {
  size_t bytes = 0;
  for (const std::vector<uint8_t>& mask : masks_) bytes += mask.size();
  return bytes;
}

void StripedNetwork::ApplyMasks() {
  for (size_t i = 0; i < masks_.size(); ++i) {
    if (masks_[i].empty()) continue;
    nn::Parameter& weight = *part_.layer(i).parameters()[0];
    float* values = weight.value.data();
    for (size_t v = 0; v < masks_[i].size(); ++v) {
      if (masks_[i][v] == 0) values[v] = 0;
    }
    weight.MarkChanged();
  }
}

}  // namespace antiphon::parallel
