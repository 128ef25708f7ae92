// Batch normalisation: z = s·(x − mean) with s = r/√(var + ε) per dimension over the minibatch's frames; with `affine`
// a learned scale and offset follow.
//
// In training mode the minibatch's own statistics are used and enter the running ones, which forget by `decay` per
// minibatch as in Kaldi: sums of count, x and x² are multiplied by it. When scoring, the running statistics are used.
// What pads shorter utterances of a minibatch has no part in it. Where ranks compute a minibatch together and say so
// (ExecContext::ranks), count, Σx and Σx² are summed over them in double, and in the backward pass Σ dy and Σ dy·z:
// each rank's output and derivatives are those of its frames in the whole minibatch. A rank without frames takes part.
// With `columns` only the first so many are normalised; what stands behind them (a speaker's vector, whose numbers are
// of a known size) stays as it is.
// After parameters were averaged they no longer fit and have to be gathered again (Network::RecomputeStatistics). A
// minibatch of one frame has no variance: its output is the offset alone. A frozen layer (learning-rate-factor 0) uses
// its running statistics in training too, and keeps them. Source: Ioffe, Szegedy, ICML 2015; Kaldi's
// BatchNormComponent. Over ranks: Peng et al., MegDet, CVPR 2018.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "kernels/normalise.h"
#include "nn/layer.h"
#include "nn/layer_traits.h"
#include "nn/layers/largest_dim.h"
#include "nn/rank_sums.h"

namespace antiphon::nn {
namespace {

struct BatchNormOptions {
  double epsilon = 1e-3;
  double target_rms = 1.0;
  double decay = 0.8;
  bool affine = false;
  int columns = 0;
  template <class V>
  void Visit(V& v) {
    v("epsilon", epsilon, Range{1e-12, 1}, "added to the variance");
    v("target-rms", target_rms, Range{1e-6, 1e6}, "standard deviation of the outputs");
    v("decay", decay, Range{0, 1}, "factor on the running statistics after each minibatch");
    v("affine", affine, "learn a scale and an offset per dimension");
    v("columns", columns, Range{0, kLargestDim}, "that are normalised, from the first on; the others stay; 0: all");
  }
};

// Of ε: an input with less variance comes out with less than a hundredth of the deviation that it should have.
constexpr double kStillShare = 1e-4;
// Of the squared mean: less variance cannot be told from the rounding of the sums, which are floats.
constexpr double kRounding = 1e-6;

// Which rows are no padding. Valid until the next one is made in this thread.
class Counted {
 public:
  Counted(const ExecContext& ctx, int64_t rows, int stride_above) : count_(rows) {
    const SequenceLayout* const layout = ctx.sequences;
    if (layout == nullptr || layout->lengths.empty()) return;
    static thread_local std::vector<uint8_t> kept;
    kept.resize(static_cast<size_t>(rows));
    const int64_t streams = layout->streams;
    for (int64_t row = 0; row < rows; ++row) {
      const int padding = layout->Padding(static_cast<int>(row % streams));
      // An empty stream has nothing around it either.
      const bool counts = padding < layout->frames && row / streams < rows / streams - int64_t{padding} * stride_above;
      kept[static_cast<size_t>(row)] = counts ? 1 : 0;
      if (!counts) --count_;
    }
    if (count_ < rows) flags_ = kept.data();
  }
  bool operator()(int64_t row) const { return flags_ == nullptr || flags_[row] != 0; }
  /// One per row, null if all count.
  const uint8_t* flags() const { return flags_; }
  int64_t count() const { return count_; }

 private:
  int64_t count_;
  const uint8_t* flags_ = nullptr;
};

// Models whose layers normalise all say nothing of columns.
Config WithoutColumns(const Config& config) {
  Config rest;
  for (const std::string& key : config.Keys()) {
    if (key != "columns") rest.Set(key, *config.AnyAsText(key));
  }
  return rest;
}

class BatchNorm : public Layer, public HasTangent, public HasStatistics {
 public:
  BatchNorm(const LayerArgs& args, const BatchNormOptions& options)
      : Layer(args.in_dim, args.in_dim),
        options_(options),
        columns_(options.columns > 0 ? options.columns : args.in_dim),
        sums_("statistics", 3, args.in_dim),
        scale_("scale", 1, options.affine ? args.in_dim : 0),
        offset_("offset", 1, options.affine ? args.in_dim : 0) {
    if (columns_ > args.in_dim) {
      Throw<UsageError>("{}: 'batch-norm' normalises {} columns, but has {} inputs", args.config.Where("columns"),
                        columns_, args.in_dim);
    }
    stored_.push_back(&sums_);
    if (!options.affine) return;
    for (float& s : scale_.value.Row(0)) s = 1;
    scale_.decay_factor = offset_.decay_factor = 0;
    trained_ = {&scale_, &offset_};
  }

  Config ToConfig() const override {
    Config config = OptionsToConfig(options_);
    return options_.columns > 0 ? config : WithoutColumns(config);
  }
  std::span<Parameter* const> parameters() override { return trained_; }
  std::span<Parameter* const> buffers() override { return stored_; }
  HasStatistics* statistics() override { return frozen_ ? nullptr : this; }
  void ListStatistics(std::vector<Parameter*>& list) override { list.push_back(&sums_); }
  void ListStillInputs(std::vector<StillInputs>& list) const override {
    StillInputs inputs{&sums_, 0, columns_};
    for (int64_t c = 0; c < columns_; ++c) {
      const auto [mean, variance] = RunningMoments(c);
      if (variance <= std::max(kStillShare * options_.epsilon, kRounding * mean * mean)) ++inputs.still;
    }
    list.push_back(inputs);
  }
  void FreezeStatistics() override { frozen_ = true; }
  LayerProperties properties() const override { return {.symmetric = !options_.affine}; }
  HasTangent* tangent() override { return options_.affine ? this : nullptr; }

  void ResetStatistics() override {
    if (frozen_) return;
    for (int r = 0; r < 3; ++r) {
      for (float& v : sums_.value.Row(r)) v = 0;
    }
  }

  void AccumulateStatistics(Workspace& ws) override { Accumulate(ws, 1.0f); }

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const override {
    const MatrixView statistics = ws.Float(kStatistics, 3, x.cols());
    if (TakesOwn(ctx)) {
      const Counted counted(ctx, x.rows(), context_above().stride);
      ws.Float(kCount, 1, 1)(0, 0) = static_cast<float>(MinibatchStatistics(ctx, x, counted, statistics));
    } else {
      RunningStatistics(statistics);
    }
    const float* mean = statistics.Row(0).data();
    if (!options_.affine) return CpuKernel<NormaliseOp>()(x, mean, statistics.Row(1).data(), nullptr, y);
    const MatrixView scale = ws.Float(kScale, 1, x.cols());
    for (int64_t c = 0; c < x.cols(); ++c) scale(0, c) = statistics(1, c) * scale_.value(0, c);
    CpuKernel<NormaliseOp>()(x, mean, scale.data(), offset_.value.data(), y);
  }

  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                  GradientSink& sink) override {
    const MatrixView sums = ws.Float(kSums, 2, dy.cols());
    const Counted counted(ctx, dy.rows(), context_above().stride);
    GradientSums(dy, counted, ws, sums);
    const ConstMatrixView of_all = TakesOwn(ctx) && ctx.ranks != nullptr ? SumOverRanks(ctx, sums, ws) : sums;
    if (dx.data() != nullptr) InputDerivative(ctx, dy, counted, ws, of_all, dx);
    if (TakesOwn(ctx)) Accumulate(ws, static_cast<float>(options_.decay));
    if (options_.affine && scale_.learning_rate_factor != 0) {
      sink.TakeDense(offset_, ConstMatrixView(sums).Rows(0, 1));
      sink.TakeDense(scale_, ConstMatrixView(sums).Rows(1, 1));
    }
  }

  // With fixed statistics, dimension by dimension; padding counts for nothing, as in Backward.
  void DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                 MatrixView dy) override {
    const Counted counted(ctx, dy.rows(), context_above().stride);
    const MatrixView statistics = ws.Float(kStatistics);
    const ConstMatrixView d_scale = Along(direction, scale_), d_offset = Along(direction, offset_);
    for (int64_t r = 0; r < dy.rows(); ++r) {
      const bool counts = counted(r);
      for (int64_t c = 0; c < dy.cols(); ++c) {
        const float s = statistics(1, c);
        const float through = dx.data() != nullptr ? s * scale_.value(0, c) * dx(r, c) : 0.0f;
        const float z = s * (ws.x(r, c) - statistics(0, c));
        dy(r, c) = counts ? through + d_scale(0, c) * z + d_offset(0, c) : 0.0f;
      }
    }
  }

 private:
  enum Slot { kStatistics, kSums, kMeans, kCount, kScale, kAllSums };  // rows of kStatistics: mean, s, mean of x²

  // Whether a minibatch is normalised by its own statistics.
  bool TakesOwn(const ExecContext& ctx) const { return ctx.training && !frozen_; }

  // Returns how many frames they are of.
  double MinibatchStatistics(const ExecContext& ctx, ConstMatrixView x, const Counted& counted,
                             MatrixView statistics) const {
    auto n = static_cast<double>(counted.count());
    const auto dim = static_cast<size_t>(x.cols());
    static thread_local std::vector<double> moments;
    moments.resize(2 * dim);
    CpuKernel<ColumnMomentsOp>()(x, counted.flags(), moments.data(), moments.data() + dim);
    if (ctx.ranks != nullptr) n = MomentsOfAll(*ctx.ranks, n, moments);
    for (size_t c = 0; c < dim; ++c) {
      const double mean = moments[c], variance = n > 0 ? moments[dim + c] / n : 0;
      const auto column = static_cast<int64_t>(c);
      statistics(0, column) = static_cast<float>(mean);
      statistics(1, column) = Scale(variance);
      statistics(2, column) = static_cast<float>(variance + mean * mean);
    }
    LeaveOthers(statistics);
    return n;
  }

  // Means and sums of squared deviations, of this rank's n frames, become those of all ranks' frames.
  static double MomentsOfAll(RankSums& ranks, double n, std::vector<double>& moments) {
    const size_t dim = moments.size() / 2;
    for (size_t c = 0; c < dim; ++c) {
      const double mean = moments[c];
      moments[c] = n * mean;
      moments[dim + c] += n * mean * mean;
    }
    moments.push_back(n);
    ranks.Sum(moments);
    n = moments.back();
    moments.pop_back();
    for (size_t c = 0; c < dim && n > 0; ++c) {
      const double mean = moments[c] / n;
      moments[c] = mean;
      moments[dim + c] = std::max(moments[dim + c] - n * mean * mean, 0.0);
    }
    return n;
  }

  static ConstMatrixView SumOverRanks(const ExecContext& ctx, ConstMatrixView sums, Workspace& ws) {
    static thread_local std::vector<double> values;
    values.assign(sums.data(), sums.data() + sums.size());
    ctx.ranks->Sum(values);
    const MatrixView all = ws.Float(kAllSums, sums.rows(), sums.cols());
    for (size_t i = 0; i < values.size(); ++i) all.data()[i] = static_cast<float>(values[i]);
    return all;
  }

  struct Moments {
    double mean;
    double variance;
  };
  // Without any statistics yet: mean 0 and variance 1.
  Moments RunningMoments(int64_t c) const {
    const auto count = static_cast<double>(sums_.value(0, c));
    const double mean = count > 0 ? static_cast<double>(sums_.value(1, c)) / count : 0;
    const double square = count > 0 ? static_cast<double>(sums_.value(2, c)) / count : 1;
    return {mean, std::max(square - mean * mean, 0.0)};
  }

  void RunningStatistics(MatrixView statistics) const {
    for (int64_t c = 0; c < statistics.cols(); ++c) {
      const auto [mean, variance] = RunningMoments(c);
      statistics(0, c) = static_cast<float>(mean);
      statistics(1, c) = Scale(variance);
    }
    LeaveOthers(statistics);
  }

  // Mean 0, deviation 1.
  void LeaveOthers(MatrixView statistics) const {
    for (int64_t c = columns_; c < statistics.cols(); ++c) {
      statistics(0, c) = 0;
      statistics(1, c) = statistics(2, c) = 1;
    }
  }

  float Scale(double variance) const {
    return static_cast<float>(options_.target_rms / std::sqrt(variance + options_.epsilon));
  }

  static void GradientSums(ConstMatrixView dy, const Counted& counted, Workspace& ws, MatrixView sums) {
    const MatrixView statistics = ws.Float(kStatistics);
    CpuKernel<CentredSumsOp>()(dy, ws.x, counted.flags(), statistics.Row(0).data(), sums);
    for (int64_t c = 0; c < dy.cols(); ++c) sums(1, c) *= statistics(1, c);
  }

  // With z' the derivative at z: in training dx = s·(z' − mean(z')) − (s/r²)·z·mean(z'·z), when scoring dx = s·z'.
  // `sums` holds Σ dy and Σ dy·z, that is, z' without the learned scale, over all frames of the minibatch.
  void InputDerivative(const ExecContext& ctx, ConstMatrixView dy, const Counted& counted, Workspace& ws,
                       ConstMatrixView sums, MatrixView dx) const {
    const int64_t dim = dy.cols();
    const MatrixView statistics = ws.Float(kStatistics);
    const MatrixView factors = ws.Float(kMeans, 3, dim);  // what is taken away, per unit of x, and what remains of all
    const double frames = TakesOwn(ctx) ? std::max(1.0, static_cast<double>(ws.Float(kCount)(0, 0))) : 1.0;
    const double r2 = options_.target_rms * options_.target_rms;
    for (int64_t c = 0; c < dim; ++c) {
      const bool own = TakesOwn(ctx) && c < columns_;
      const float s = statistics(1, c);
      factors(0, c) = own ? static_cast<float>(static_cast<double>(sums(0, c)) / frames) : 0.0f;
      factors(1, c) = own ? s * static_cast<float>(static_cast<double>(sums(1, c)) / (r2 * frames)) : 0.0f;
      factors(2, c) = options_.affine ? s * scale_.value(0, c) : s;
    }
    CpuKernel<NormaliseDerivativeOp>()(dy, ws.x, counted.flags(), statistics.Row(0).data(), factors.Row(2).data(),
                                       factors.Row(0).data(), factors.Row(1).data(), dx);
  }

  void Accumulate(Workspace& ws, float decay) {
    const MatrixView statistics = ws.Float(kStatistics);
    if (frozen_) return;
    const float n = ws.Float(kCount)(0, 0);
    if (n == 0) return;
    for (int64_t c = 0; c < statistics.cols(); ++c) {
      sums_.value(0, c) = decay * (sums_.value(0, c) + n);
      sums_.value(1, c) = decay * (sums_.value(1, c) + n * statistics(0, c));
      sums_.value(2, c) = decay * (sums_.value(2, c) + n * statistics(2, c));
    }
  }

  BatchNormOptions options_;
  int columns_;
  bool frozen_ = false;
  Parameter sums_;  // rows: count, Σx, Σx²
  Parameter scale_;
  Parameter offset_;
  std::vector<Parameter*> trained_;
  std::vector<Parameter*> stored_;
};

REGISTER_COMPONENT(LayerRegistry, "batch-norm", [](const LayerArgs& args) {
  return std::make_unique<BatchNorm>(args, ReadLayerOptions<BatchNormOptions>(args));
});
REGISTER_COMPONENT(LayerTraitsRegistry, "batch-norm", Traits({.batch_statistics = true, .units_apart = true}));

}  // namespace
}  // namespace antiphon::nn
