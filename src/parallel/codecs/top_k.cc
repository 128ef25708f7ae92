// The largest few of a gradient's values, in full; the rest waits: gradient dropping, and with momentum correction deep
// gradient compression.
//
// Each part of a matrix keeps v, the sum of what was not sent, and sends the `density` share of largest magnitude. With
// momentum μ it keeps u too: u = μ·u + g, v = v + u; where v is sent both become zero, u unless `mask-momentum` is off
// (then density 1 is plain momentum). The optimiser's own momentum must be 0 with it. The threshold comes from a sample
// and is corrected to exactly k values. Density falls to its value over `ramp-epochs` by equal factors, beginning at 25
// %. `clip` limits the norm of a worker's gradient of each matrix part to clip/√workers before it enters. The sum over
// ranks holds few enough values to travel exactly. Bytes: 8 per value sent; the sum has up to `workers` times as many.
// A worker sends nothing but its share, so that density 1 is exact. Source: Aji, Heafield, EMNLP 2017; Lin, Han, Mao,
// Wang, Dally, ICLR 2018.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/options.h"
#include "kernels/reductions.h"
#include "parallel/codecs/sparse.h"

namespace antiphon::parallel {
namespace {

struct TopKOptions {
  double density = 0.01;
  double momentum = 0;
  bool mask_momentum = true;
  double clip = 0;
  double ramp_epochs = 0;
  template <class V>
  void Visit(V& v) {
    v("density", density, Range{1e-6, 1}, "share of the values that are sent");
    v("momentum", momentum, Range{0, 0.9999}, "momentum correction: take it from the optimizer");
    v("mask-momentum", mask_momentum, "forget the momentum of what is sent, which is old by then");
    v("clip", clip, Range{0, 1e9}, "limit of a gradient's norm, over the root of the number of workers; 0: none");
    v("ramp-epochs", ramp_epochs, Range{0, 1e6}, "epochs over which the density falls from 0.25");
  }
};

class TopK : public Codec {
 public:
  explicit TopK(const Config& config)
      : options_(ReadOptions<TopKOptions>(config, {"type"})), density_(options_.density) {}

  // v, and u with momentum correction.
  int num_planes() const override { return options_.momentum > 0 ? 2 : 1; }
  int num_sum_planes() const override { return 0; }
  double momentum() const override { return options_.momentum; }

  void BeginStep(const CodecStep& step) override {
    constexpr double kFirstDensity = 0.25;
    density_ = options_.density;
    if (step.epoch < options_.ramp_epochs && options_.density < kFirstDensity) {
      density_ = kFirstDensity * std::pow(options_.density / kFirstDensity, step.epoch / options_.ramp_epochs);
    }
    norm_limit_ = options_.clip / std::sqrt(static_cast<double>(step.world_size));
  }

  void Encode(ConstMatrixView gradient, std::span<const MatrixView> memory, Code& code) override {
    CheckPositions(gradient);
    const int64_t size = gradient.rows() * gradient.cols();
    Accumulate(gradient, memory);
    const MatrixView waiting = memory[0];
    const int64_t k = std::min<int64_t>(size, std::llround(std::ceil(density_ * static_cast<double>(size))));
    Select(waiting, k);
    for (const SparseValue& v : chosen_) {
      const int64_t r = v.position / gradient.cols();
      const int64_t c = v.position % gradient.cols();
      waiting(r, c) = 0;
      if (memory.size() > 1 && options_.mask_momentum) memory[1](r, c) = 0;
    }
    AppendSparse(chosen_, code);
  }

  size_t Decode(std::span<const std::byte> code, MatrixView gradient) override { return TakeSparse(code, gradient); }
  void EncodeSum(ConstMatrixView sum, std::span<const MatrixView>, Code& code) override { AppendNonzero(sum, code); }

  std::string Describe() const override {
    return fmt::format("the largest {:.4g} % of a gradient's values travel, the rest waits{}", 100 * options_.density,
                       options_.momentum > 0 ? fmt::format("; momentum correction {:.4g}", options_.momentum) : "");
  }

 private:
  void Accumulate(ConstMatrixView gradient, std::span<const MatrixView> memory) const {
    float scale = 1;
    if (norm_limit_ > 0) {
      const double norm = std::sqrt(SumSquares(gradient));
      if (norm > norm_limit_) scale = static_cast<float>(norm_limit_ / norm);
    }
    const auto momentum = static_cast<float>(options_.momentum);
    for (int64_t r = 0; r < gradient.rows(); ++r) {
      const float* g = gradient.Row(r).data();
      float* v = memory[0].Row(r).data();
      if (memory.size() > 1) {
        float* u = memory[1].Row(r).data();
        for (int64_t c = 0; c < gradient.cols(); ++c) v[c] += u[c] = momentum * u[c] + scale * g[c];
      } else {
        for (int64_t c = 0; c < gradient.cols(); ++c) v[c] += scale * g[c];
      }
    }
  }

  // Magnitudes above which about twice k values lie, estimated from values at equal distances.
  float SampleThreshold(ConstMatrixView v, int64_t k) {
    constexpr int64_t kSample = 1 << 14;
    const int64_t size = v.rows() * v.cols();
    const int64_t stride = std::max<int64_t>(1, size / kSample) | 1;
    sample_.clear();
    for (int64_t i = 0; i < size; i += stride) sample_.push_back(std::abs(v(i / v.cols(), i % v.cols())));
    const double share = std::min(1.0, 2.0 * static_cast<double>(k) / static_cast<double>(size));
    const auto above = static_cast<std::ptrdiff_t>(share * static_cast<double>(sample_.size())) + 4;
    if (above >= std::ssize(sample_)) return 0;
    const auto nth = sample_.begin() + above;
    std::nth_element(sample_.begin(), nth, sample_.end(), std::greater<>());
    return *nth;
  }

  // Fills chosen_ with the k largest magnitudes, by position; of equal ones the first.
  void Select(ConstMatrixView v, int64_t k) {
    Collect(v, SampleThreshold(v, k));
    if (std::ssize(chosen_) < k) Collect(v, 0);
    const auto larger = [](const SparseValue& a, const SparseValue& b) {
      const float x = std::abs(a.value);
      const float y = std::abs(b.value);
      return x != y ? x > y : a.position < b.position;
    };
    if (std::ssize(chosen_) > k) {
      std::nth_element(chosen_.begin(), chosen_.begin() + k, chosen_.end(), larger);
      chosen_.resize(static_cast<size_t>(k));
    }
    std::sort(chosen_.begin(), chosen_.end(), [](const auto& a, const auto& b) { return a.position < b.position; });
  }

  // Values whose magnitude reaches the threshold. What is not a number goes at once, so that everybody sees it.
  void Collect(ConstMatrixView v, float threshold) {
    chosen_.clear();
    for (int64_t r = 0; r < v.rows(); ++r) {
      const float* row = v.Row(r).data();
      for (int64_t c = 0; c < v.cols(); ++c) {
        if (std::abs(row[c]) < threshold) continue;
        const float value = std::isnan(row[c]) ? INFINITY : row[c];
        chosen_.push_back({static_cast<uint32_t>(r * v.cols() + c), value});
      }
    }
  }

  TopKOptions options_;
  double density_;
  double norm_limit_ = 0;
  std::vector<float> sample_;
  std::vector<SparseValue> chosen_;
};

REGISTER_COMPONENT(CodecRegistry, "top-k", [](const Config& config) { return std::make_unique<TopK>(config); });

}  // namespace
}  // namespace antiphon::parallel
