// One bit per value with error feedback: 1-bit SGD.
//
// Each column (input) of a weight matrix keeps two values, the mean of its gradients at or above zero and of those
// below; what that leaves out is added to the next gradient (kernels/one_bit.h). The sum over the ranks is coded in the
// same way by the rank that made it, with a remainder of its own. Bytes: rows · cols/8 + 8 · cols per matrix and stage.
// Without feedback training fails; it is there to be turned off for showing that. `threshold = "mean"` cuts each column
// at its mean instead of at zero, so that columns whose gradients all have one sign keep their differences.
// Source: Seide, Fu, Droppo, Li, Yu, Interspeech 2014; CNTK's zeroThresholdFor1Bit.
#include "kernels/one_bit.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/options.h"
#include "kernels/elementwise.h"
#include "parallel/codec.h"

namespace antiphon::parallel {
namespace {

struct OneBitOptions {
  bool feedback = true;
  std::string threshold = "zero";
  template <class V>
  void Visit(V& v) {
    v("feedback", feedback, "add what was left out to the next gradient");
    v("threshold", threshold, OneOf{{"zero", "mean"}}, "where the values of a column are cut in two");
  }
};

class OneBit : public Codec {
 public:
  explicit OneBit(const Config& config) : options_(ReadOptions<OneBitOptions>(config, {"type"})) {}

  int num_planes() const override { return 1; }
  bool by_columns() const override { return true; }

  void Encode(ConstMatrixView gradient, std::span<const MatrixView> memory, Code& code) override {
    const int64_t rows = gradient.rows();
    const int64_t cols = gradient.cols();
    if (rows == 0 || cols == 0) return;
    MatrixView remainder = memory[0];
    if (!options_.feedback) Scale(0.0f, gradient, remainder);
    means_.Resize(2, cols);
    const size_t means_bytes = static_cast<size_t>(2 * cols) * sizeof(float);
    const size_t begin = code.size();
    code.resize(begin + means_bytes + static_cast<size_t>(OneBitBytes(rows, cols)));
    if (options_.threshold == "mean") ShiftByMean(gradient, remainder);
    OneBitEncode(gradient, remainder, means_, reinterpret_cast<uint8_t*>(code.data() + begin + means_bytes));
    if (options_.threshold == "mean") {
      for (int64_t c = 0; c < 2 * cols; ++c) means_.data()[c] += shift_[static_cast<size_t>(c % cols)];
    }
    std::copy_n(reinterpret_cast<const std::byte*>(means_.data()), means_bytes, code.data() + begin);
  }

  size_t Decode(std::span<const std::byte> code, MatrixView gradient) override {
    const int64_t rows = gradient.rows();
    const int64_t cols = gradient.cols();
    if (rows == 0 || cols == 0) return 0;
    means_.Resize(2, cols);
    const size_t at = TakeBytes(code, std::as_writable_bytes(std::span(means_.data(), static_cast<size_t>(2 * cols))));
    bits_.resize(static_cast<size_t>(OneBitBytes(rows, cols)));
    const size_t taken = TakeBytes(code.subspan(at), std::as_writable_bytes(std::span(bits_)));
    OneBitDecode(means_, bits_.data(), gradient);
    return at + taken;
  }

  std::string Describe() const override {
    return options_.feedback ? "gradients travel as one bit per value, with error feedback"
                             : "gradients travel as one bit per value; what is left out is lost";
  }

 private:
  // Takes each column's mean of gradient + remainder out of the remainder, so that it lies at zero.
  void ShiftByMean(ConstMatrixView gradient, MatrixView remainder) {
    std::vector<double> sums(static_cast<size_t>(gradient.cols()), 0.0);
    for (int64_t r = 0; r < gradient.rows(); ++r) {
      for (int64_t c = 0; c < gradient.cols(); ++c) {
        sums[static_cast<size_t>(c)] += static_cast<double>(gradient(r, c)) + static_cast<double>(remainder(r, c));
      }
    }
    shift_.resize(sums.size());
    for (size_t c = 0; c < sums.size(); ++c) {
      shift_[c] = static_cast<float>(sums[c] / static_cast<double>(gradient.rows()));
    }
    for (int64_t r = 0; r < gradient.rows(); ++r) {
      for (int64_t c = 0; c < gradient.cols(); ++c) remainder(r, c) -= shift_[static_cast<size_t>(c)];
    }
  }

  OneBitOptions options_;
  std::vector<float> shift_;
  Matrix means_;
  std::vector<uint8_t> bits_;
};

REGISTER_COMPONENT(CodecRegistry, "one-bit", [](const Config& config) { return std::make_unique<OneBit>(config); });

}  // namespace
}  // namespace antiphon::parallel
