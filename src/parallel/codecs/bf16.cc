// Gradients rounded to bf16: half the bytes, the range of fp32, eight bits of precision.
//
// Rounding is to nearest even; with `feedback` its errors are added to the next gradient. Bytes: 2 per value.
#include "math/bf16.h"

#include "base/options.h"
#include "kernels/elementwise.h"
#include "parallel/codec.h"

namespace antiphon::parallel {
namespace {

struct Bf16Options {
  bool feedback = false;
  template <class V>
  void Visit(V& v) {
    v("feedback", feedback, "add rounding errors to the next gradient");
  }
};

class Bf16Codec : public Codec {
 public:
  explicit Bf16Codec(const Config& config) : options_(ReadOptions<Bf16Options>(config, {"type"})) {}

  int num_planes() const override { return options_.feedback ? 1 : 0; }

  void Encode(ConstMatrixView gradient, std::span<const MatrixView> memory, Code& code) override {
    if (gradient.empty()) return;
    rounded_.Resize(gradient.rows(), gradient.cols());
    if (options_.feedback) {
      AddScaled(1.0f, gradient, memory[0]);
      ConvertToBf16(1.0f, memory[0], rounded_);
      for (int64_t r = 0; r < gradient.rows(); ++r) {
        float* left = memory[0].Row(r).data();
        const Bf16* sent = rounded_.Row(r).data();
        for (int64_t c = 0; c < gradient.cols(); ++c) left[c] -= ToFloat(sent[c]);
      }
    } else {
      ConvertToBf16(1.0f, gradient, rounded_);
    }
    AppendBytes(std::as_bytes(std::span(rounded_.data(), static_cast<size_t>(rounded_.size()))), code);
  }

  size_t Decode(std::span<const std::byte> code, MatrixView gradient) override {
    rounded_.Resize(gradient.rows(), gradient.cols());
    const auto bytes = std::as_writable_bytes(std::span(rounded_.data(), static_cast<size_t>(rounded_.size())));
    const size_t taken = TakeBytes(code, bytes);
    for (int64_t r = 0; r < gradient.rows(); ++r) {
      const Bf16* sent = rounded_.Row(r).data();
      float* out = gradient.Row(r).data();
      for (int64_t c = 0; c < gradient.cols(); ++c) out[c] = ToFloat(sent[c]);
    }
    return taken;
  }

  std::string Describe() const override {
    return options_.feedback ? "gradients travel as bf16, with error feedback" : "gradients travel as bf16";
  }

 private:
  Bf16Options options_;
  Bf16Matrix rounded_;
};

REGISTER_COMPONENT(CodecRegistry, "bf16", [](const Config& config) { return std::make_unique<Bf16Codec>(config); });

}  // namespace
}  // namespace antiphon::parallel
