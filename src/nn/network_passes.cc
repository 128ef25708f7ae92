// Passes through a network: forward, backward, and of the derivative along a direction.
#include <algorithm>
#include <functional>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "nn/network.h"

namespace antiphon::nn {

MatrixView Network::Forward(const ExecContext& ctx, ConstMatrixView x, Workspace& ws) const {
  return Forward(ctx, x, all_layers(), ws);
}

MatrixView Network::Forward(const ExecContext& ctx, ConstMatrixView x, LayerRange range, Workspace& ws) const {
  CHECK(range.first < range.last && range.last <= layers_.size() && begins_range(range.first))
      << range.first << " … " << range.last << " of " << layers_.size();
  const int in_dim = layers_[range.first].layer->in_dim();
  if (x.cols() != in_dim) {
    Throw<ShapeError>(
        "the network takes {} values per frame, found {}: features, splicing and model do not belong together", in_dim,
        x.cols());
  }
  ConstMatrixView below = x;
  MatrixView y;
  for (size_t i = range.first; i < range.last; ++i) {
    Workspace& child = ws.Child(i);
    if (layers_[i].absorbed) {
      child.x = child.y = y;
      continue;
    }
    const Layer& layer = *layers_[i].layer;
    y = ws.Float(i, layer.OutputRows(ctx, below.rows()), layer.out_dim());
    layer.Forward(ctx, below, y, child);
    below = y;
  }
  if (range.last < layers_.size() || !layers_.back().layer->properties().needs_output) return y;
  const MatrixView copy = ws.Float(layers_.size(), y.rows(), y.cols());
  std::copy_n(y.data(), y.size(), copy.data());
  return copy;
}

MatrixView Network::Backward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, GradientSink& sink,
                             bool want_dx, const std::function<void(size_t)>& after_layer) {
  return Backward(ctx, dy, all_layers(), ws, sink, want_dx, after_layer);
}

MatrixView Network::Backward(const ExecContext& ctx, ConstMatrixView dy, LayerRange range, Workspace& ws,
                             GradientSink& sink, bool want_dx, const std::function<void(size_t)>& after_layer) {
  CHECK_LE(range.last, layers_.size());
  size_t lowest = range.first;
  if (!want_dx) {
    const auto learns = [](Entry& e) {
      const auto ps = e.layer->parameters();
      return std::any_of(ps.begin(), ps.end(), [](const Parameter* p) { return p->learning_rate_factor != 0; });
    };
    while (lowest < range.last && !learns(layers_[lowest])) ++lowest;
  }
  // Two buffers take turns; a layer that works in place keeps the derivative where it is, which for the first is dy
  // itself only if dy is ours to change, so that one goes to a buffer.
  size_t turn = 0;
  ConstMatrixView g = dy;
  MatrixView own;
  for (size_t i = range.last; i-- > lowest;) {
    Layer& layer = *layers_[i].layer;
    MatrixView dx;
    if (i > lowest || want_dx) {
      if (layer.properties().in_place && own.data() != nullptr) {
        dx = own;
      } else {
        dx = ws.Derivative(turn, ws.Child(i).x.rows(), layer.in_dim());
        turn = 1 - turn;
      }
    }
    layer.Backward(ctx, g, ws.Child(i), dx, sink);
    if (after_layer) after_layer(i);
    g = dx;
    own = dx;
  }
  return want_dx ? own : MatrixView();
}

MatrixView Network::Tangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction,
                            Workspace& ws) {
  // Below the lowest layer with parameters nothing changes with these.
  size_t lowest = 0;
  while (dx.data() == nullptr && lowest + 1 < layers_.size() && layers_[lowest].layer->parameters().empty()) ++lowest;
  // Two buffers behind the outputs of Forward take turns.
  size_t turn = 0;
  ConstMatrixView below = dx;
  MatrixView dy;
  for (size_t i = lowest; i < layers_.size(); ++i) {
    Workspace& child = ws.Child(i);
    dy = ws.Float(layers_.size() + 1 + turn, child.y.rows(), layers_[i].layer->out_dim());
    turn = 1 - turn;
    layers_[i].layer->Tangent(ctx, below, direction, child, dy);
    below = dy;
  }
  return dy;
}

size_t Network::FirstWithoutTangent() const {
  size_t i = 0;
  while (i < layers_.size() && layers_[i].layer->has_tangent()) ++i;
  return i;
}

}  // namespace antiphon::nn
