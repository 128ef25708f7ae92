// Whatever has grown beyond a threshold, as a sign: values wait until their sum exceeds ±τ, then ±τ is sent.
//
// r = r + g; where |r| > τ, sgn(r)·τ is sent in 32 bits (31 of position, one of sign) and taken from r. A value can
// give off τ per step at most: too small a τ lags behind. τ is in units of the gradient of the loss averaged over all
// frames. The sum over ranks travels exactly. Bytes: 4 per value sent, 8 in the sum. Source: Strom, Interspeech 2015.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/options.h"
#include "parallel/codecs/sparse.h"

namespace antiphon::parallel {
namespace {

struct ThresholdOptions {
  double threshold = 1e-4;
  template <class V>
  void Visit(V& v) {
    v("threshold", threshold, Range{1e-12, 1e6}, "τ, what is sent at a time, as a frame-averaged gradient");
  }
};

class Threshold : public Codec {
 public:
  explicit Threshold(const Config& config)
      : threshold_(static_cast<float>(ReadOptions<ThresholdOptions>(config, {"type"}).threshold)) {}

  int num_planes() const override { return 1; }
  int num_sum_planes() const override { return 0; }

  void Encode(ConstMatrixView gradient, std::span<const MatrixView> memory, Code& code) override {
    CheckPositions(gradient);
    words_.clear();
    for (int64_t r = 0; r < gradient.rows(); ++r) {
      const float* g = gradient.Row(r).data();
      float* waiting = memory[0].Row(r).data();
      for (int64_t c = 0; c < gradient.cols(); ++c) {
        waiting[c] += g[c];
        if (std::abs(waiting[c]) <= threshold_) continue;
        const bool negative = waiting[c] < 0;
        waiting[c] += negative ? threshold_ : -threshold_;
        words_.push_back(static_cast<uint32_t>(r * gradient.cols() + c) << 1 | (negative ? 1u : 0u));
      }
    }
    const auto count = static_cast<uint32_t>(words_.size());
    AppendBytes(std::as_bytes(std::span(&count, 1)), code);
    AppendBytes(std::as_bytes(std::span(words_)), code);
  }

  size_t Decode(std::span<const std::byte> code, MatrixView gradient) override {
    uint32_t count = 0;
    size_t taken = TakeBytes(code, std::as_writable_bytes(std::span(&count, 1)));
    const auto size = static_cast<uint64_t>(gradient.rows() * gradient.cols());
    if (count > size) Throw<InputError>("a sparse gradient has {} values for a matrix of {}: damaged", count, size);
    words_.resize(count);
    taken += TakeBytes(code.subspan(taken), std::as_writable_bytes(std::span(words_)));
    for (int64_t r = 0; r < gradient.rows(); ++r) std::fill(gradient.Row(r).begin(), gradient.Row(r).end(), 0.0f);
    for (const uint32_t word : words_) {
      const uint32_t position = word >> 1;
      if (position >= size) Throw<InputError>("a sparse gradient names position {} of {}: damaged", position, size);
      gradient(position / gradient.cols(), position % gradient.cols()) = (word & 1) != 0 ? -threshold_ : threshold_;
    }
    return taken;
  }

  void EncodeSum(ConstMatrixView sum, std::span<const MatrixView>, Code& code) override { AppendNonzero(sum, code); }
  size_t DecodeSum(std::span<const std::byte> code, MatrixView sum) override { return TakeSparse(code, sum); }

  std::string Describe() const override {
    return fmt::format("values beyond ±{:.4g} travel as signs, the rest waits", static_cast<double>(threshold_));
  }

 private:
  float threshold_;
  std::vector<uint32_t> words_;
};

REGISTER_COMPONENT(CodecRegistry, "threshold",
                   [](const Config& config) { return std::make_unique<Threshold>(config); });

}  // namespace
}  // namespace antiphon::parallel
