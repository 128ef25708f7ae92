// Gradients as 8-bit integers, each block of 256 values of a row with a scale of its own.
//
// s = max|u|/127, q = round(u/s), to nearest with error feedback (u = g + what was left out), or at random up or down
// so that the mean is right and nothing needs to be remembered (`rounding = "stochastic"`). The random numbers of a
// matrix are those of its values, its rank and its step: layers are encoded in the order in which messages arrive,
// which must change nothing. Bytes: 1 per value and 4 per block.
#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/options.h"
#include "base/random.h"
#include "parallel/codec.h"

namespace antiphon::parallel {
namespace {

constexpr int64_t kScaleBlock = 256;
constexpr uint64_t kRoundingSeed = 0x8b17;

struct Int8Options {
  std::string rounding = "nearest";
  template <class V>
  void Visit(V& v) {
    v("rounding", rounding, OneOf{{"nearest", "stochastic"}}, "to nearest with error feedback, or at random without");
  }
};

class Int8 : public Codec {
 public:
  explicit Int8(const Config& config) : nearest_(ReadOptions<Int8Options>(config, {"type"}).rounding == "nearest") {}

  // Each rank draws its own numbers: with the same ones, errors of equal values would add up instead of averaging out.
  void BeginStep(const CodecStep& step) override {
    ++steps_;
    seed_ = MixSeed(MixSeed(kRoundingSeed, steps_), static_cast<uint64_t>(step.rank));
  }

  int num_planes() const override { return nearest_ ? 1 : 0; }

  void Encode(ConstMatrixView gradient, std::span<const MatrixView> memory, Code& code) override {
    float block[kScaleBlock];
    for (int64_t r = 0; r < gradient.rows(); ++r) {
      if (!nearest_) rng_ = Rng(seed_, MixSeed(Checksum(std::as_bytes(gradient.Row(r))), static_cast<uint64_t>(r)));
      for (int64_t first = 0; first < gradient.cols(); first += kScaleBlock) {
        const int64_t count = std::min(kScaleBlock, gradient.cols() - first);
        const float* g = gradient.Row(r).data() + first;
        float* left = nearest_ ? memory[0].Row(r).data() + first : nullptr;
        for (int64_t i = 0; i < count; ++i) block[i] = g[i] + (left != nullptr ? left[i] : 0.0f);
        EncodeBlock(block, left, count, code);
      }
    }
  }

  size_t Decode(std::span<const std::byte> code, MatrixView gradient) override {
    size_t taken = 0;
    int8_t values[kScaleBlock];
    for (int64_t r = 0; r < gradient.rows(); ++r) {
      for (int64_t first = 0; first < gradient.cols(); first += kScaleBlock) {
        const int64_t count = std::min(kScaleBlock, gradient.cols() - first);
        float scale = 0;
        taken += TakeBytes(code.subspan(taken), std::as_writable_bytes(std::span(&scale, 1)));
        taken +=
            TakeBytes(code.subspan(taken), std::as_writable_bytes(std::span(values).first(static_cast<size_t>(count))));
        float* out = gradient.Row(r).data() + first;
        for (int64_t i = 0; i < count; ++i) out[i] = scale * static_cast<float>(values[i]);
      }
    }
    return taken;
  }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    writer.Add(prefix + ".rounding", std::span<const uint64_t>(&steps_, 1));
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    steps_ = static_cast<uint64_t>(reader.ReadInts(prefix + ".rounding").at(0));
  }

  std::string Describe() const override {
    return nearest_ ? "gradients travel as 8-bit integers, with error feedback"
                    : "gradients travel as 8-bit integers, rounded at random";
  }

 private:
  void EncodeBlock(const float* block, float* left, int64_t count, Code& code) {
    float largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(block[i]));
    bool finite = std::isfinite(largest);
    for (int64_t i = 0; i < count; ++i) finite = finite && std::isfinite(block[i]);
    // A scale that is not a number makes the whole block so: everybody sees that something is wrong.
    const float scale = finite ? largest / 127 : NAN;
    const float inverse = scale > 0 ? 1 / scale : 0.0f;
    int8_t values[kScaleBlock];
    for (int64_t i = 0; i < count; ++i) {
      const float exact = finite ? std::clamp(block[i] * inverse, -127.0f, 127.0f) : 1.0f;
      const float rounded =
          left != nullptr ? std::nearbyint(exact) : std::floor(exact + static_cast<float>(rng_.Uniform()));
      values[i] = static_cast<int8_t>(std::min(rounded, 127.0f));
      if (left != nullptr) left[i] = finite ? block[i] - scale * static_cast<float>(values[i]) : 0.0f;
    }
    AppendBytes(std::as_bytes(std::span(&scale, 1)), code);
    AppendBytes(std::as_bytes(std::span(values).first(static_cast<size_t>(count))), code);
  }

  bool nearest_;
  uint64_t steps_ = 0;
  uint64_t seed_ = kRoundingSeed;  // of this rank's step
  Rng rng_{kRoundingSeed};
};

REGISTER_COMPONENT(CodecRegistry, "int8", [](const Config& config) { return std::make_unique<Int8>(config); });

}  // namespace
}  // namespace antiphon::parallel
