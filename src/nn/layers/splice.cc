// Sets frames beside one another: y_t = [x_{t+o₁}; …; x_{t+o_k}]. With an affine layer on top this is a time-delay
// layer ("tdnn", which is written as the two).
//
// The copies stand for what a convolution over time calls im2col: the affine layer above then has one product over all
// offsets, whose factors are also what optimisers precondition, and every kind of affine layer (rounded, sparse,
// low-rank …) can be a time-delay one. The copying costs a few percent of the product.
// `stride` s gives every s-th frame only: layers above compute only what is needed for those.
// Shapes: x [N, D] gives y [outputs, k·D].
// Source: Waibel et al., Phoneme recognition using time-delay neural networks, 1989; Peddinti, Povey, Khudanpur,
// Interspeech 2015 for the offsets with gaps.
#include <algorithm>

#include "kernels/parallel.h"
#include "nn/layer.h"
#include "nn/layer_traits.h"
#include "nn/layers/largest_dim.h"

namespace antiphon::nn {
namespace {

struct SpliceOptions {
  std::vector<int> offsets = {-1, 0, 1};
  int stride = 1;
  template <class V>
  void Visit(V& v) {
    v("offsets", offsets, Range{-1000, 1000}, "frames that are set beside one another, relative to the current one");
    v("stride", stride, Range{1, 100}, "give an output for every so many frames only");
  }
};

SpliceOptions CheckedSplice(const LayerArgs& args) {
  auto options = ReadLayerOptions<SpliceOptions>(args);
  if (options.offsets.empty()) Throw<UsageError>("{}: expected at least one offset", args.config.Where("offsets"));
  if (std::ssize(options.offsets) > kLargestDim / std::max(args.in_dim, 1)) {
    Throw<UsageError>("{}: {} offsets of {} inputs make more than {} outputs", args.config.Where("offsets"),
                      options.offsets.size(), args.in_dim, kLargestDim);
  }
  return options;
}

class Splice : public Layer, public HasTangent {
 public:
  Splice(const LayerArgs& args, const SpliceOptions& options)
      : Layer(args.in_dim, args.in_dim * static_cast<int>(options.offsets.size())), options_(options) {
    const auto [first, last] = std::minmax_element(options.offsets.begin(), options.offsets.end());
    context_ = {std::max(0, -*first), std::max(0, *last), options.stride};
  }
  Config ToConfig() const override { return OptionsToConfig(options_); }
  TimeContext time_context() const override { return context_; }
  HasTangent* tangent() override { return this; }
  LayerProperties properties() const override { return {.output_blocks = Blocks()}; }

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace&) const override {
    const int64_t streams = ctx.streams();
    const int64_t dim = in_dim();
    ParallelItems(y.rows(), y.size(), [&](int64_t r) {
      float* to = y.Row(r).data();
      for (const int offset : options_.offsets) {
        to = std::copy_n(x.Row(InputRow(r, offset, streams)).data(), dim, to);
      }
    });
  }

  // Every input row adds up what it was copied to, in the order of the offsets.
  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace&, MatrixView dx, GradientSink&) override {
    if (dx.data() == nullptr) return;
    const int64_t streams = ctx.streams();
    const int64_t dim = in_dim();
    ParallelItems(dx.rows(), dy.size(), [&](int64_t r) {
      float* sum = dx.Row(r).data();
      std::fill_n(sum, dim, 0.0f);
      for (size_t k = 0; k < options_.offsets.size(); ++k) {
        const int64_t centre = r / streams - context_.left - options_.offsets[k];
        const int64_t row = centre / context_.stride * streams + r % streams;
        if (centre < 0 || centre % context_.stride != 0 || row >= dy.rows()) continue;
        const float* g = dy.Row(row).data() + static_cast<int64_t>(k) * dim;
        for (int64_t c = 0; c < dim; ++c) sum[c] += g[c];
      }
    });
  }

  void DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float>, Workspace& ws,
                 MatrixView dy) override {
    DoForward(ctx, dx, dy, ws);
  }

 private:
  // Known of evenly spaced offsets.
  ShiftedBlocks Blocks() const {
    const auto& offsets = options_.offsets;
    const int gap = offsets.size() > 1 ? offsets[1] - offsets[0] : 0;
    for (size_t k = 1; k < offsets.size(); ++k) {
      if (offsets[k] - offsets[k - 1] != gap) return {};
    }
    if (gap <= 0 || gap % context_.stride != 0) return {};
    return {static_cast<int>(offsets.size()), gap / context_.stride};
  }

  int64_t InputRow(int64_t output_row, int offset, int64_t streams) const {
    const int64_t frame = output_row / streams * context_.stride + context_.left + offset;
    return frame * streams + output_row % streams;
  }

  SpliceOptions options_;
  TimeContext context_;
};

REGISTER_COMPONENT(LayerRegistry, "splice",
                   [](const LayerArgs& args) { return std::make_unique<Splice>(args, CheckedSplice(args)); });
REGISTER_COMPONENT(LayerTraitsRegistry, "splice", Traits({.splices = true}));

}  // namespace
}  // namespace antiphon::nn
