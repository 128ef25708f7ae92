// Long short-term memory with a projected recurrence (LSTMP):
//   i = σ(I + w_i∘c₋)  f = σ(F + w_f∘c₋)  c = f∘c₋ + i∘tanh(G)  o = σ(O + w_o∘c)  m = o∘tanh(c)  r = P·m
//   [I F G O] = W·x + R·r₋ + b
// The output is r (m without projection). W·x of all frames is one product, then a frame of all streams at a time
// follows: one product with R for the four gates, the cells (kernels/recurrent_cell.h), one with P.
//
// Back-propagation through time ends at the minibatch's first frame; the state goes on into the next minibatch where
// that continues the same utterance. What goes back from a frame to the one before is kept within ±`clip` per value, in
// units of a loss that is summed over the minibatch's frames.
// `share-gates`: one [n, in] matrix stands for the input weights of all four gates, told apart by biases, recurrent
// weights and a learned scale per gate and cell: I = s_i∘(W·x) + …
// Initial weights: normal, deviation 1/√(inputs + recurrent inputs); the forget gate's bias is 1.
// Source: Sak, Senior, Beaufays, Interspeech 2014; Gers, Schmidhuber 2000 (peepholes).
#include <cmath>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/parallel.h"
#include "kernels/recurrent_cell.h"
#include "nn/layers/affine_base.h"
#include "nn/layers/recurrent_base.h"
#include "nn/layers/recurrent_tangents.h"

namespace antiphon::nn {
namespace {

struct LstmOptions {
  int dim = 0;
  int projection = 0;
  bool peepholes = true;
  bool share_gates = false;
  double clip = 30.0;
  double forget_bias = 1.0;
  template <class V>
  void Visit(V& v) {
    v("dim", dim, Range{0, 1 << 20}, "number of cells");
    v("projection", projection, Range{0, 1 << 20}, "outputs, to which the cells are projected; 0: one per cell");
    v("peepholes", peepholes, "let gates see the cells");
    v("share-gates", share_gates, "one matrix of input weights for all four gates");
    v("clip", clip, Range{0, 1e9}, "limit of derivatives that go back in time (of a loss summed over frames); 0: none");
    v("forget-bias", forget_bias, "initial bias of the forget gates");
  }
};

class Lstm : public RecurrentBase, public HasTangent {
 public:
  Lstm(const LayerArgs& args, const LstmOptions& options)
      : RecurrentBase(args.in_dim, options.projection > 0 ? options.projection : CheckedDim(args, options.dim)),
        options_(options),
        cells_(CheckedDim(args, options.dim)),
        weight_("weight", options.share_gates ? cells_ : 4 * cells_, in_dim()),
        bias_("bias", 1, 4 * cells_),
        recurrent_("recurrent", 4 * cells_, out_dim()),
        peepholes_("peepholes", options.peepholes ? 3 : 0, cells_),
        scale_("scale", options.share_gates ? 4 : 0, cells_),
        projection_("projection", options.projection, cells_) {
    all_ = {&weight_, &bias_, &recurrent_};
    if (options.peepholes) all_.push_back(&peepholes_);
    if (options.share_gates) all_.push_back(&scale_);
    if (options.projection > 0) all_.push_back(&projection_);
    for (Parameter* p : {&bias_, &peepholes_, &scale_}) p->decay_factor = 0;
    bias_.weight = &weight_;
    for (float& b : bias_.value.Cols(cells_, cells_).Row(0)) b = static_cast<float>(options.forget_bias);
    for (int64_t k = 0; k < scale_.value.rows(); ++k) {
      for (float& s : scale_.value.Row(k)) s = 1;
    }
    if (args.random_values) Draw(args.seed);
    for (Parameter* p : all_) p->MarkChanged();
  }

  std::span<Parameter* const> parameters() override { return all_; }
  HasTangent* tangent() override { return this; }
  Config ToConfig() const override { return OptionsToConfig(options_); }

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const override {
    const int64_t rows = x.rows(), streams = ctx.streams();
    const bool half = ctx.precision == Precision::kBf16;
    const MatrixView gates = ws.Derivative(kGates, rows, 4 * cells_);
    InputProduct(ctx, x, gates, ws);
    const MatrixView cell = BeginStates(ctx, ws, kCell, rows, cells_);
    const MatrixView out = BeginStates(ctx, ws, kOutput, rows, out_dim());
    const Bf16View out16 = ws.Half(kHalfOutput, half ? rows + streams : 0, out_dim());
    const MatrixView cell_tanh = ws.Float(kCellTanh, rows, cells_);
    const MatrixView m = projects() ? ws.Float(kCellOutput, rows, cells_) : out.Rows(streams, rows);
    const Bf16View m16 = ws.Half(kHalfCellOutput, half && projects() ? rows : 0, cells_);
    for (int64_t r = 0; r < rows; r += streams) {
      const MatrixView step = gates.Rows(r, streams);
      MultiplyByWeight(ctx, out.Rows(r, streams), Part(out16, r, streams), Transpose::kYes, recurrent_, step,
                       {.accumulate = 1.0f});
      CpuKernel<LstmForwardOp>()({step, peepholes_.value, cell.Rows(r, streams), cell.Rows(r + streams, streams),
                                  cell_tanh.Rows(r, streams), m.Rows(r, streams)});
      if (!projects()) continue;
      MultiplyByWeight(ctx, m.Rows(r, streams), Part(m16, r, streams), Transpose::kYes, projection_,
                       out.Rows(r + streams, streams));
    }
    KeepStates(ctx, ws, kCell, cell);
    KeepStates(ctx, ws, kOutput, out);
    Scale(1.0f, out.Rows(streams, rows), y);
  }

  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                  GradientSink& sink) override {
    const int64_t rows = dy.rows();
    const bool half = ctx.precision == Precision::kBf16;
    const MatrixView d_gates = ws.Derivative(kGates, rows, 4 * cells_);
    const Bf16View d_gates16 = ws.HalfDerivative(kHalfGates, half ? rows : 0, 4 * cells_);
    const MatrixView sums = ws.Float(kPeepholeSums, peepholes_.value.rows(), cells_);
    BackThroughTime(ctx, dy, d_gates, d_gates16, sums, ws);
    GradientFactors input{.x = ws.x, .g = d_gates, .x16 = {}, .g16 = {}, .bias_input = {}};
    if (half) {
      input.g16 = d_gates16;
      input.x16 = ws.Half(kHalfInput);
    }
    if (options_.share_gates) {
      SharedInputGradient(ctx, input, dx, ws, sink);
    } else {
      if (dx.data() != nullptr) MultiplyByGates(ctx, input, weight_, dx);
      if (learns()) sink.TakeFactors(weight_, &bias_, input);
    }
    if (!learns()) return;
    TakeRecurrent(ctx, input, ws, sink);
    if (options_.peepholes) sink.TakeDense(peepholes_, sums);
  }

  void DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                 MatrixView dy) override {
    const int64_t rows = dy.rows(), streams = ctx.streams();
    const ConstMatrixView gates = ws.Derivative(kGates, rows, 4 * cells_), cell_tanh = ws.Float(kCellTanh);
    const ConstMatrixView cell = ws.Float(kCell), out = ws.Float(kOutput);
    const MatrixView d_gates = ws.Float(kGateTangents, rows, 4 * cells_);
    InputTangent(dx, direction, d_gates, ws);
    Gemm(Transpose::kNo, out.Rows(0, rows), Transpose::kYes, Along(direction, recurrent_), d_gates,
         {.accumulate = 1.0f});
    // First of all frames what comes from the directions of R and P; nothing changes in the states at the start.
    const MatrixView d_cell = ws.Float(kCellTangents, 2 * streams, cells_);
    const MatrixView dc = d_cell.Rows(0, streams), dm = d_cell.Rows(streams, streams);
    const MatrixView d_out = ws.Float(kOutputTangents, rows + streams, out_dim());
    std::fill_n(dc.data(), dc.size(), 0.0f);
    std::fill_n(d_out.data(), d_out.Rows(0, streams).size(), 0.0f);
    if (projects()) {
      Gemm(Transpose::kNo, ws.Float(kCellOutput), Transpose::kYes, Along(direction, projection_),
           d_out.Rows(streams, rows));
    }
    for (int64_t r = 0; r < rows; r += streams) {
      const MatrixView step = d_gates.Rows(r, streams), d_step = d_out.Rows(r + streams, streams);
      Gemm(Transpose::kNo, d_out.Rows(r, streams), Transpose::kYes, recurrent_.value, step, {.accumulate = 1.0f});
      LstmCellTangent({gates.Rows(r, streams), peepholes_.value, Along(direction, peepholes_), cell.Rows(r, streams),
                       cell.Rows(r + streams, streams), cell_tanh.Rows(r, streams), step, dc,
                       projects() ? dm : d_step});
      if (projects()) Gemm(Transpose::kNo, dm, Transpose::kYes, projection_.value, d_step, {.accumulate = 1.0f});
    }
    Scale(1.0f, d_out.Rows(streams, rows), dy);
  }

 private:
  enum Slot {
    kCell,
    kOutput,
    kCellTanh,
    kCellOutput,
    kPeepholeSums,
    kCellDerivative,
    kShared,
    kScaleSums,
    kBiasSums,
    kGateTangents,
    kCellTangents,
    kOutputTangents,
    kSharedTangents
  };
  enum HalfSlot { kHalfInput, kHalfOutput, kHalfCellOutput };
  enum DerivativeSlot { kGates, kOutputDerivative, kSharedDerivative };
  enum HalfDerivativeSlot { kHalfGates, kHalfOutputDerivative, kHalfSharedDerivative };

  bool projects() const { return options_.projection > 0; }
  bool learns() const { return weight_.learning_rate_factor != 0; }
  static Bf16View Part(Bf16View m, int64_t first, int64_t count) {
    return m.rows() == 0 ? Bf16View() : m.Rows(first, count);
  }

  void Draw(uint64_t seed) {
    const auto narrower = [&](const Parameter& p) {
      return std::sqrt(static_cast<double>(p.value.cols()) / (in_dim() + out_dim()));
    };
    DrawWeights(narrower(weight_), MixSeed(seed, 0), weight_.value);
    DrawWeights(narrower(recurrent_), MixSeed(seed, 1), recurrent_.value);
    if (projects()) DrawWeights(1.0, MixSeed(seed, 2), projection_.value);
  }

  // gates = W·x + b, of all frames.
  void InputProduct(const ExecContext& ctx, ConstMatrixView x, MatrixView gates, Workspace& ws) const {
    const Bf16View x16 = ws.Half(kHalfInput, ctx.precision == Precision::kBf16 ? x.rows() : 0, x.cols());
    if (!options_.share_gates) {
      return MultiplyByWeight(ctx, x, x16, Transpose::kYes, weight_, gates, {.bias = bias_.value.data()});
    }
    const MatrixView shared = ws.Float(kShared, x.rows(), cells_);
    MultiplyByWeight(ctx, x, x16, Transpose::kYes, weight_, shared);
    ParallelItems(x.rows(), gates.size(), [&](int64_t r) {
      const float* from = shared.Row(r).data();
      for (int64_t k = 0; k < 4; ++k) {
        const float* s = scale_.value.Row(k).data();
        const float* b = bias_.value.data() + k * cells_;
        float* to = gates.Row(r).data() + k * cells_;
        for (int64_t c = 0; c < cells_; ++c) to[c] = s[c] * from[c] + b[c];
      }
    });
  }

  // What changes in W·x + b, of all frames.
  void InputTangent(ConstMatrixView dx, std::span<const float> direction, MatrixView d_gates, Workspace& ws) const {
    const bool share = options_.share_gates;
    const ConstMatrixView d_bias = Along(direction, bias_);
    const MatrixView d_product = share ? ws.Float(kSharedTangents, d_gates.rows(), cells_) : d_gates;
    GemmEpilogue bias;
    if (!share) bias.bias = d_bias.data();
    Gemm(Transpose::kNo, ws.x, Transpose::kYes, Along(direction, weight_), d_product, bias);
    if (dx.data() != nullptr) Gemm(Transpose::kNo, dx, Transpose::kYes, weight_.value, d_product, {.accumulate = 1.0f});
    if (!share) return;
    const ConstMatrixView shared = ws.Float(kShared), d_scale = Along(direction, scale_);
    for (int64_t r = 0; r < d_gates.rows(); ++r) {
      for (int64_t k = 0; k < 4; ++k) {
        for (int64_t c = 0; c < cells_; ++c) {
          d_gates(r, k * cells_ + c) =
              scale_.value(k, c) * d_product(r, c) + d_scale(k, c) * shared(r, c) + d_bias(0, k * cells_ + c);
        }
      }
    }
  }

  // From the last frame to the first: derivatives of the gates' inputs take the gates' place.
  void BackThroughTime(const ExecContext& ctx, ConstMatrixView dy, MatrixView gates, Bf16View gates16, MatrixView sums,
                       Workspace& ws) const {
    const int64_t rows = dy.rows(), streams = ctx.streams();
    const float limit = ClipLimit(ctx, options_.clip, rows);
    const MatrixView d_out = ws.Derivative(kOutputDerivative, rows, out_dim());
    const Bf16View d_out16 = ws.HalfDerivative(kHalfOutputDerivative, gates16.rows(), out_dim());
    const MatrixView cell = ws.Float(kCell), cell_tanh = ws.Float(kCellTanh);
    const MatrixView d_cell = ws.Float(kCellDerivative, 2 * streams, cells_);
    const MatrixView dc = d_cell.Rows(0, streams), dm = d_cell.Rows(streams, streams);
    for (int64_t r = 0; r < streams; ++r) std::fill_n(dc.Row(r).data(), cells_, 0.0f);
    for (int64_t r = 0; r < sums.rows(); ++r) std::fill_n(sums.Row(r).data(), cells_, 0.0f);
    for (int64_t r = rows - streams; r >= 0; r -= streams) {
      const MatrixView d_step = d_out.Rows(r, streams);
      if (r + streams == rows) {
        Scale(1.0f, dy.Rows(r, streams), d_step);
      } else {
        MultiplyByWeight(ctx, gates.Rows(r + streams, streams), Part(gates16, r + streams, streams), Transpose::kNo,
                         recurrent_, d_step);
        ClampAndAdd(limit, dy.Rows(r, streams), d_step);
      }
      if (projects()) MultiplyByWeight(ctx, d_step, Part(d_out16, r, streams), Transpose::kNo, projection_, dm);
      CpuKernel<LstmBackwardOp>()({gates.Rows(r, streams), peepholes_.value, cell.Rows(r, streams),
                                   cell.Rows(r + streams, streams), cell_tanh.Rows(r, streams),
                                   projects() ? dm : d_step, dc, sums, limit});
    }
    // The first frame's were not needed for a product yet.
    if (gates16.rows() > 0) ConvertToBf16(1.0f, gates.Rows(0, streams), gates16.Rows(0, streams));
  }

  static void MultiplyByGates(const ExecContext& ctx, const GradientFactors& factors, const Parameter& weight,
                              MatrixView y) {
    if (ctx.precision == Precision::kFp32) {
      Gemm(Transpose::kNo, factors.g, Transpose::kNo, weight.value, y);
    } else {
      Gemm(Transpose::kNo, factors.g16, Transpose::kNo, weight.Bf16Value(), y);
    }
  }

  void TakeRecurrent(const ExecContext& ctx, GradientFactors factors, Workspace& ws, GradientSink& sink) {
    const int64_t rows = factors.g.rows();
    const bool half = ctx.precision == Precision::kBf16;
    factors.x = ConstMatrixView(ws.Float(kOutput)).Rows(0, rows);
    if (half) factors.x16 = ConstBf16View(ws.Half(kHalfOutput)).Rows(0, rows);
    sink.TakeFactors(recurrent_, nullptr, factors);
    if (!projects()) return;
    factors.x = ws.Float(kCellOutput);
    factors.g = ws.Derivative(kOutputDerivative, rows, out_dim());
    if (half) {
      factors.x16 = ws.Half(kHalfCellOutput);
      factors.g16 = ws.HalfDerivative(kHalfOutputDerivative, rows, out_dim());
    }
    sink.TakeFactors(projection_, nullptr, factors);
  }

  // The shared matrix sees the sum of its four uses.
  void SharedInputGradient(const ExecContext& ctx, const GradientFactors& gates, MatrixView dx, Workspace& ws,
                           GradientSink& sink) {
    const int64_t rows = gates.g.rows();
    const bool half = ctx.precision == Precision::kBf16;
    const MatrixView shared = ws.Float(kShared);
    const MatrixView g = ws.Derivative(kSharedDerivative, rows, cells_);
    const MatrixView scale_sums = ws.Float(kScaleSums, 4, cells_);
    ParallelItems(rows, gates.g.size(), [&](int64_t r) {
      float* to = g.Row(r).data();
      std::fill_n(to, cells_, 0.0f);
      for (int64_t k = 0; k < 4; ++k) {
        const float* from = gates.g.Row(r).data() + k * cells_;
        const float* s = scale_.value.Row(k).data();
        for (int64_t c = 0; c < cells_; ++c) to[c] += s[c] * from[c];
      }
    });
    for (int64_t k = 0; k < 4; ++k) {
      float* sums = scale_sums.Row(k).data();
      std::fill_n(sums, cells_, 0.0f);
      for (int64_t r = 0; r < rows; ++r) {
        const float* from = gates.g.Row(r).data() + k * cells_;
        const float* value = shared.Row(r).data();
        for (int64_t c = 0; c < cells_; ++c) sums[c] += from[c] * value[c];
      }
    }
    GradientFactors factors{.x = gates.x, .g = g, .x16 = gates.x16, .g16 = {}, .bias_input = {}};
    if (half) {
      const Bf16View g16 = ws.HalfDerivative(kHalfSharedDerivative, rows, cells_);
      ConvertToBf16(1.0f, g, g16);
      factors.g16 = g16;
    }
    if (dx.data() != nullptr) MultiplyByGates(ctx, factors, weight_, dx);
    if (!learns()) return;
    sink.TakeFactors(weight_, nullptr, factors);
    const MatrixView bias_sums = ws.Float(kBiasSums, 1, 4 * cells_);
    BiasGradient(gates, 1.0f, 0.0f, bias_sums);
    sink.TakeDense(bias_, bias_sums);
    sink.TakeDense(scale_, scale_sums);
  }

  LstmOptions options_;
  int cells_;
  Parameter weight_;
  Parameter bias_;
  Parameter recurrent_;
  Parameter peepholes_;
  Parameter scale_;
  Parameter projection_;
  std::vector<Parameter*> all_;
};

REGISTER_COMPONENT(LayerRegistry, "lstm", [](const LayerArgs& args) {
  return std::make_unique<Lstm>(args, ReadLayerOptions<LstmOptions>(args));
});

}  // namespace
}  // namespace antiphon::nn
