// Convolution over frequency, and over time if there are several offsets: the same filters at every position.
//   y_t[h, f] = b_f + Σ_k Σ_j Σ_c W[f, (k, j, c)] · x_{t + o_k}[h·stride − pad + j, c]
// A row holds `height` positions with `channels` values each, position after position (`channels-first`: channel after
// channel, as a front end's deltas come); outputs are position after position with `filters` values each. With `pad`
// there are as many positions as before (divided by the stride), zeros standing beyond the ends.
//
// Computed block by block: the inputs of a few frames' outputs side by side in cache (im2col), then one product with
// the filters. Blocks are shared among threads; sums over them run in groups whose number is fixed, so that results do
// not depend on the number of threads. In fp32, three neighbouring positions of many channels take a way with fewer
// multiplications (nn/layers/filtered_convolution.h).
// Initial weights: normal, deviation 1/√(values that a filter sees); biases 0.
// Source: Abdel-Hamid et al., IEEE TASLP 2014; LeCun et al. 1998.

#include <algorithm>
#include <vector>

#include "base/compute_threads.h"
#include "kernels/elementwise.h"
#include "kernels/reductions.h"
#include "nn/layers/affine_base.h"
#include "nn/layers/convolution_geometry.h"
#include "nn/layers/filtered_convolution.h"

namespace antiphon::nn {
namespace {

constexpr int64_t kBlockValues = 1 << 16;  // of patches: a quarter of a MiB
constexpr int kSumGroups = 8;

class Convolution : public Layer, public HasTangent {
 public:
  Convolution(const LayerArgs& args, const ConvolutionGeometry& geometry)
      : Layer(args.in_dim, geometry.out_dim()),
        geometry_(geometry),
        weight_("weight", geometry.options.filters, geometry.patch()),
        bias_("bias", 1, geometry.options.filters) {
    bias_.decay_factor = 0;
    bias_.weight = &weight_;
    if (args.random_values) DrawWeights(1.0, args.seed, weight_.value);
    for (Parameter* p : all_) p->MarkChanged();
  }

  std::span<Parameter* const> parameters() override { return all_; }
  Config ToConfig() const override { return OptionsToConfig(geometry_.options); }
  TimeContext time_context() const override { return geometry_.context; }
  HasTangent* tangent() override { return this; }
  Activation* absorbed_activation() override { return &activation_; }

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const override {
    CHECK(y.contiguous());
    const GemmEpilogue epilogue{.bias = bias_.value.data(), .activation = activation_};
    const bool half = ctx.precision == Precision::kBf16;
    if (Filtered(ctx)) {
      return FilteredConvolution(geometry_).Forward(ctx, x, weight_.value, epilogue, ws.Child(0), y);
    }
    const Scratch scratch(*this, ws, half);
    ForBlocks(y.rows(), [&](int64_t first, int64_t count, int thread) {
      const MatrixView patches = scratch.Patches(thread, count * height());
      GatherAll(ctx, x, first, count, patches);
      const MatrixView out(y.Row(first).data(), count * height(), filters());
      if (!half) return Gemm(Transpose::kNo, patches, Transpose::kYes, weight_.value, out, epilogue);
      Gemm(Transpose::kNo, scratch.RoundedPatches(thread, patches), Transpose::kYes, weight_.Bf16Value(), out,
           epilogue);
    });
  }

  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                  GradientSink& sink) override {
    if (Filtered(ctx)) return FilteredBackward(ctx, dy, ws, dx, sink);
    const bool half = ctx.precision == Precision::kBf16;
    const Scratch scratch(*this, ws, half);
    if (dx.data() != nullptr) InputDerivative(ctx, dy, dx, scratch);
    if (weight_.learning_rate_factor == 0) return;
    // Rows: partial sums of the weights of each group one below the other; likewise of the biases.
    const MatrixView weights = ws.Float(kWeightSums, kSumGroups * filters(), weight_.value.cols());
    const MatrixView biases = ws.Float(kBiasSums, kSumGroups, filters());
    Sums(ctx, dy, ws.x, scratch, weights, biases);
    for (int g = 1; g < kSumGroups; ++g) {
      AddScaled(1.0f, weights.Rows(g * filters(), filters()), weights.Rows(0, filters()));
      AddScaled(1.0f, biases.Rows(g, 1), biases.Rows(0, 1));
    }
    sink.TakeDense(weight_, weights.Rows(0, filters()));
    sink.TakeDense(bias_, biases.Rows(0, 1));
  }

  // Two convolutions: of x with the direction, of dx with the filters.
  void DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                 MatrixView dy) override {
    CHECK(dy.contiguous());
    const Scratch scratch(*this, ws, false);
    const GemmEpilogue bias{.bias = Along(direction, bias_).data()};
    ForBlocks(dy.rows(), [&](int64_t first, int64_t count, int thread) {
      const MatrixView patches = scratch.Patches(thread, count * height());
      const MatrixView out(dy.Row(first).data(), count * height(), filters());
      GatherAll(ctx, ws.x, first, count, patches);
      Gemm(Transpose::kNo, patches, Transpose::kYes, Along(direction, weight_), out, bias);
      if (dx.data() == nullptr) return;
      GatherAll(ctx, dx, first, count, patches);
      Gemm(Transpose::kNo, patches, Transpose::kYes, weight_.value, out, {.accumulate = 1.0f});
    });
  }

 private:
  enum Slot { kPatches, kDerivatives, kWeightSums, kBiasSums };
  enum HalfSlot { kHalfPatches, kHalfDerivatives };

  bool Filtered(const ExecContext& ctx) const {
    return ctx.precision == Precision::kFp32 && FilteredConvolution::Pays(geometry_);
  }
  void FilteredBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink& sink) {
    const FilteredConvolution way(geometry_);
    if (dx.data() != nullptr) way.InputDerivative(ctx, dy, weight_.value, ws.Child(0), dx);
    if (weight_.learning_rate_factor == 0) return;
    const MatrixView weight = ws.Float(kWeightSums, filters(), weight_.value.cols());
    const MatrixView bias = ws.Float(kBiasSums, 1, filters());
    way.Gradient(ctx, ws.x, dy, ws.Child(0), weight, bias);
    sink.TakeDense(weight_, weight);
    sink.TakeDense(bias_, bias);
  }

  int64_t height() const { return geometry_.out_height(); }
  int64_t filters() const { return geometry_.options.filters; }
  int64_t BlockFrames() const { return std::max<int64_t>(1, kBlockValues / (height() * weight_.value.cols())); }

  // Memory of each thread for one block.
  class Scratch {
   public:
    Scratch(const Convolution& layer, Workspace& ws, bool half)
        : rows_(layer.BlockFrames() * layer.height()),
          filters_(layer.filters()),
          patches_(ws.Float(kPatches, ComputeThreads() * rows_, layer.weight_.value.cols())),
          derivatives_(ws.Float(kDerivatives, ComputeThreads() * rows_, layer.filters())),
          half_patches_(ws.Half(kHalfPatches, half ? patches_.rows() : 0, patches_.cols())),
          half_derivatives_(ws.Half(kHalfDerivatives, half ? patches_.rows() : 0, filters_)) {}
    MatrixView Patches(int thread, int64_t rows) const { return patches_.Rows(thread * rows_, rows); }
    // Rows of `dy`, position by position.
    MatrixView Derivatives(int thread, ConstMatrixView dy) const {
      const int64_t height = dy.cols() / filters_;
      const MatrixView to = derivatives_.Rows(thread * rows_, dy.rows() * height);
      for (int64_t r = 0; r < dy.rows(); ++r) std::copy_n(dy.Row(r).data(), dy.cols(), to.Row(r * height).data());
      return to;
    }
    ConstBf16View RoundedPatches(int thread, ConstMatrixView m) const { return Round(m, half_patches_, thread); }
    ConstBf16View RoundedDerivatives(int thread, ConstMatrixView m) const {
      return Round(m, half_derivatives_, thread);
    }

   private:
    ConstBf16View Round(ConstMatrixView m, const Bf16View& memory, int thread) const {
      const Bf16View to = memory.Rows(thread * rows_, m.rows());
      ConvertToBf16(1.0f, m, to);
      return to;
    }

    int64_t rows_;
    int64_t filters_;
    MatrixView patches_;
    MatrixView derivatives_;
    Bf16View half_patches_;
    Bf16View half_derivatives_;
  };

  // Calls body(first row, count, thread) for blocks of output rows.
  template <class Body>
  void ForBlocks(int64_t rows, Body body) const {
    const int64_t block = BlockFrames();
    const int64_t blocks = (rows + block - 1) / block;
    ParallelPieces(blocks, [&](int64_t b, int thread) { body(b * block, std::min(block, rows - b * block), thread); });
  }

  // Patches of output rows first … first + count − 1.
  void GatherAll(const ExecContext& ctx, ConstMatrixView x, int64_t first, int64_t count, MatrixView patches) const {
    for (int64_t r = 0; r < count; ++r) {
      geometry_.Gather(x, first + r, ctx.streams(), 0, geometry_.num_offsets(), patches.Rows(r * height(), height()));
    }
  }

  // One time offset after another: the outputs of a block then reach each input row at most once.
  void InputDerivative(const ExecContext& ctx, ConstMatrixView dy, MatrixView dx, const Scratch& scratch) const {
    const int64_t streams = ctx.streams();
    for (int64_t r = 0; r < dx.rows(); ++r) std::fill_n(dx.Row(r).data(), dx.cols(), 0.0f);
    const int64_t window = geometry_.window();
    for (int k = 0; k < geometry_.num_offsets(); ++k) {
      ForBlocks(dy.rows(), [&](int64_t first, int64_t count, int thread) {
        const MatrixView g = scratch.Derivatives(thread, dy.Rows(first, count));
        const MatrixView all = scratch.Patches(thread, count * height());
        const MatrixView patches(all.data(), all.rows(), window);
        if (ctx.precision == Precision::kFp32) {
          Gemm(Transpose::kNo, g, Transpose::kNo, weight_.value.Cols(k * window, window), patches);
        } else {
          Gemm(Transpose::kNo, scratch.RoundedDerivatives(thread, g), Transpose::kNo,
               weight_.Bf16Value().Cols(k * window, window), patches);
        }
        for (int64_t r = 0; r < count; ++r) {
          geometry_.Scatter(patches.Rows(r * height(), height()), first + r, streams, k, dx);
        }
      });
    }
  }

  // Each group of consecutive blocks has its own sums.
  void Sums(const ExecContext& ctx, ConstMatrixView dy, ConstMatrixView x, const Scratch& scratch, MatrixView weights,
            MatrixView biases) const {
    const int64_t block = BlockFrames();
    const int64_t blocks = (dy.rows() + block - 1) / block;
    ParallelPieces(kSumGroups, [&](int64_t g, int thread) {
      const MatrixView weight = weights.Rows(g * filters(), filters()), bias = biases.Rows(g, 1);
      for (int64_t f = 0; f < filters(); ++f) std::fill_n(weight.Row(f).data(), weight.cols(), 0.0f);
      std::fill_n(bias.data(), filters(), 0.0f);
      for (int64_t b = blocks * g / kSumGroups; b < blocks * (g + 1) / kSumGroups; ++b) {
        const int64_t first = b * block, count = std::min(block, dy.rows() - first);
        const MatrixView derivatives = scratch.Derivatives(thread, dy.Rows(first, count));
        const MatrixView patches = scratch.Patches(thread, count * height());
        GatherAll(ctx, x, first, count, patches);
        ColumnSums(1.0f, derivatives, nullptr, 1.0f, bias);
        if (ctx.precision == Precision::kFp32) {
          Gemm(Transpose::kYes, derivatives, Transpose::kNo, patches, weight, {.accumulate = 1.0f});
        } else {
          Gemm(Transpose::kYes, scratch.RoundedDerivatives(thread, derivatives), Transpose::kNo,
               scratch.RoundedPatches(thread, patches), weight, {.accumulate = 1.0f});
        }
      }
    });
  }

  ConvolutionGeometry geometry_;
  Activation activation_ = Activation::kNone;
  Parameter weight_;
  Parameter bias_;
  std::vector<Parameter*> all_ = {&weight_, &bias_};
};

REGISTER_COMPONENT(LayerRegistry, "convolution", [](const LayerArgs& args) {
  return std::make_unique<Convolution>(args, ConvolutionGeometry(args));
});

}  // namespace
}  // namespace antiphon::nn
