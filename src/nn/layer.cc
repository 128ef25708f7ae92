#include "nn/layer.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace antiphon::nn {

const std::vector<std::string> kCommonLayerKeys = [] {
  std::vector<std::string> keys = {"type", "name"};
  for (const OptionDescription& option : DescribeOptions<CommonLayerOptions>()) keys.push_back(option.name);
  return keys;
}();

int64_t Layer::OutputRows(const ExecContext& ctx, int64_t rows) const {
  const TimeContext context = time_context();
  return context.one_to_one() ? rows : context.Outputs(rows / ctx.streams()) * ctx.streams();
}

void Layer::Forward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const {
  if (x.cols() != in_dim_ || y.cols() != out_dim_ || y.rows() != OutputRows(ctx, x.rows())) {
    Throw<ShapeError>("a layer from {} to {} values cannot map [{}, {}] to [{}, {}]", in_dim_, out_dim_, x.rows(),
                      x.cols(), y.rows(), y.cols());
  }
  if (ctx.sequences != nullptr && x.rows() % ctx.streams() != 0) {
    Throw<ShapeError>("{} rows are not the same number of frames of each of {} streams", x.rows(), ctx.streams());
  }
  ws.x = x;
  ws.y = y;
  DoForward(ctx, x, y, ws);
}

void Layer::Backward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink& sink) {
  const int64_t n = ws.x.rows();
  const bool wants_dx = dx.data() != nullptr;
  if (dy.rows() != ws.y.rows() || dy.cols() != out_dim_ || (wants_dx && (dx.rows() != n || dx.cols() != in_dim_))) {
    Throw<ShapeError>("a layer from {} to {} values that saw {} frames cannot turn derivatives [{}, {}] into [{}, {}]",
                      in_dim_, out_dim_, n, dy.rows(), dy.cols(), dx.rows(), dx.cols());
  }
  DoBackward(ctx, dy, ws, dx, sink);
}

void Layer::Tangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                    MatrixView dy) {
  CHECK(has_tangent() && !ctx.training);
  const bool moves = dx.data() != nullptr;
  if (dy.rows() != ws.y.rows() || dy.cols() != out_dim_ ||
      (moves && (dx.rows() != ws.x.rows() || dx.cols() != in_dim_))) {
    Throw<ShapeError>("a layer from {} to {} values that saw {} frames cannot turn tangents [{}, {}] into [{}, {}]",
                      in_dim_, out_dim_, ws.x.rows(), dx.rows(), dx.cols(), dy.rows(), dy.cols());
  }
  if (!moves && parameters().empty()) {
    for (int64_t r = 0; r < dy.rows(); ++r) std::fill_n(dy.Row(r).data(), dy.cols(), 0.0f);
    return;
  }
  if (HasTangent* const own = tangent()) return own->DoTangent(ctx, dx, direction, ws, dy);
  NullGradientSink nothing;
  DoBackward(ctx, dx, ws, dy, nothing);
}

int Layer::whole_out_dim() const {
  const int whole = properties().whole_out_dim;
  return whole > 0 ? whole : out_dim_;
}

// What a layer can do does not change it, though whoever does it may.
bool Layer::has_tangent() const { return properties().symmetric || const_cast<Layer*>(this)->tangent() != nullptr; }
bool Layer::has_statistics() const { return const_cast<Layer*>(this)->statistics() != nullptr; }

}  // namespace antiphon::nn
