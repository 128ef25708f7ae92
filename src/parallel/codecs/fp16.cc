// Gradients rounded to half precision, multiplied by a scale that keeps small ones from vanishing.
//
// The scale S begins at `scale`. If a sum is infinite or not a number, the step is not taken (on no rank: all decode
// the same sums, or tell each other) and S is halved; after `growth-steps` good steps it is doubled. At S = 1 a bad sum
// is let through, so that the trainer's guard sees that it is not the scale's fault. Bytes: 2 per value. Source:
// Micikevicius et al., ICLR 2018.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/options.h"
#include "math/half.h"
#include "parallel/codec.h"

namespace antiphon::parallel {
namespace {

struct Fp16Options {
  double scale = 32768;
  int growth_steps = 2000;
  template <class V>
  void Visit(V& v) {
    v("scale", scale, Range{1, 1e9}, "factor on the gradients before rounding, in the beginning");
    v("growth-steps", growth_steps, Range{1, 1 << 30}, "good steps after which the factor is doubled");
  }
};

class Fp16 : public Codec {
 public:
  explicit Fp16(const Config& config) : options_(ReadOptions<Fp16Options>(config, {"type"})), scale_(options_.scale) {}

  // A step that is exchanged again, because a rank was lost, has seen nothing yet.
  void BeginStep(const CodecStep&) override { overflow_ = false; }
  void Encode(ConstMatrixView gradient, std::span<const MatrixView>, Code& code) override {
    const auto scale = static_cast<float>(scale_);
    row_.resize(static_cast<size_t>(gradient.cols()));
    for (int64_t r = 0; r < gradient.rows(); ++r) {
      const float* g = gradient.Row(r).data();
      for (size_t c = 0; c < row_.size(); ++c) row_[c] = ToHalf(scale * g[c]);
      AppendBytes(std::as_bytes(std::span(row_)), code);
    }
  }

  size_t Decode(std::span<const std::byte> code, MatrixView gradient) override {
    const auto scale = static_cast<float>(1 / scale_);
    row_.resize(static_cast<size_t>(gradient.cols()));
    size_t taken = 0;
    for (int64_t r = 0; r < gradient.rows(); ++r) {
      taken += TakeBytes(code.subspan(taken), std::as_writable_bytes(std::span(row_)));
      float* out = gradient.Row(r).data();
      for (size_t c = 0; c < row_.size(); ++c) out[c] = scale * FromHalf(row_[c]);
    }
    return taken;
  }

  size_t DecodeSum(std::span<const std::byte> code, MatrixView sum) override {
    const size_t taken = Decode(code, sum);
    float nothing = 0;  // not a number as soon as one value is not finite
    for (int64_t r = 0; r < sum.rows(); ++r) {
      for (const float v : sum.Row(r)) nothing += v * 0.0f;
    }
    overflow_ = overflow_ || nothing != 0;
    return taken;
  }

  bool judges_sums() const override { return true; }
  bool sums_are_usable() const override { return !overflow_; }
  bool EndStep(bool usable) override {
    overflow_ = false;
    if (!usable && scale_ > 1) {
      scale_ = std::max(1.0, scale_ / 2);
      good_steps_ = 0;
      return false;
    }
    if (++good_steps_ >= options_.growth_steps) {
      scale_ *= 2;
      good_steps_ = 0;
    }
    return true;
  }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    const double state[] = {scale_, static_cast<double>(good_steps_)};
    writer.Add(prefix + ".scale", std::span<const double>(state));
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    const std::vector<double> state = reader.ReadDoubles(prefix + ".scale");
    scale_ = state.at(0);
    good_steps_ = static_cast<int64_t>(state.at(1));
  }

  std::string Describe() const override { return fmt::format("gradients travel as fp16, scaled by {:.0f}", scale_); }

 private:
  Fp16Options options_;
  double scale_;
  int64_t good_steps_ = 0;
  bool overflow_ = false;
  std::vector<uint16_t> row_;
};

REGISTER_COMPONENT(CodecRegistry, "fp16", [](const Config& config) { return std::make_unique<Fp16>(config); });

}  // namespace
}  // namespace antiphon::parallel
