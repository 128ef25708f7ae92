// Gradients as they are: four bytes per value, nothing lost, no memory.
#include "base/options.h"
#include "parallel/codec.h"

namespace antiphon::parallel {
namespace {

struct Fp32Options {
  template <class V>
  void Visit(V&) {}
};

class Fp32 : public Codec {
 public:
  explicit Fp32(const Config& config) { ReadOptions<Fp32Options>(config, {"type"}); }

  void Encode(ConstMatrixView gradient, std::span<const MatrixView>, Code& code) override {
    if (gradient.contiguous()) {
      AppendBytes(std::as_bytes(std::span(gradient.data(), static_cast<size_t>(gradient.size()))), code);
      return;
    }
    code.reserve(code.size() + static_cast<size_t>(gradient.size()) * sizeof(float));
    for (int64_t r = 0; r < gradient.rows(); ++r) AppendBytes(std::as_bytes(gradient.Row(r)), code);
  }
  size_t Decode(std::span<const std::byte> code, MatrixView gradient) override {
    size_t taken = 0;
    for (int64_t r = 0; r < gradient.rows(); ++r) {
      taken += TakeBytes(code.subspan(taken), std::as_writable_bytes(gradient.Row(r)));
    }
    return taken;
  }
  std::string Describe() const override { return "gradients travel as fp32"; }
};

REGISTER_COMPONENT(CodecRegistry, "fp32", [](const Config& config) { return std::make_unique<Fp32>(config); });

}  // namespace
}  // namespace antiphon::parallel
