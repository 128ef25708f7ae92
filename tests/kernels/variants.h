// Helpers for comparing every registered variant of an operation with the reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"
#include "device/kernel_table.h"
#include "math/matrix.h"

namespace antiphon::testing {

/// Calls body(name, function, reference) for each CPU variant of the operation beside "ref", of which there must be
/// one.
template <class Operation, class Body>
void ForVariants(Body body) {
  typename Operation::Function reference = nullptr;
  for (const auto& e : KernelTable<Operation>::Get().entries()) {
    if (e.variant == "ref" && e.device == DeviceKind::kCpu) reference = e.function;
  }
  ASSERT_NE(reference, nullptr) << Operation::kName;
  int others = 0;
  for (const auto& e : KernelTable<Operation>::Get().entries()) {
    if (e.variant == "ref" || e.device != DeviceKind::kCpu) continue;
    ++others;
    body(e.variant, e.function, reference);
  }
  EXPECT_GE(others, 1) << Operation::kName;
}

struct Size {
  int64_t rows, cols;
};
/// Odd, empty, single, and large enough for several threads.
inline const std::vector<Size>& OddSizes() {
  static const std::vector<Size> sizes = {{0, 5},  {3, 0},  {1, 1},     {1, 15},   {2, 16},
                                          {5, 17}, {3, 67}, {37, 1031}, {300, 257}};
  return sizes;
}

/// Values in memory that is not aligned and whose rows are further apart than they are long (unless `packed`).
class Ragged {
 public:
  Ragged(Size size, uint64_t seed, double scale = 1, bool packed = false)
      : values_(static_cast<size_t>(size.rows * (size.cols + 5) + 1)) {
    Rng rng(seed);
    for (float& v : values_) v = static_cast<float>(scale * rng.Normal());
    view = MatrixView(values_.data() + 1, size.rows, size.cols, packed ? size.cols : size.cols + 5);
  }
  Ragged(const Ragged&) = delete;
  /// Everything outside the view.
  uint64_t HashOutside() const {
    uint64_t hash = 0;
    const std::vector<float>& v = values_;
    for (size_t i = 0; i < v.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) - 1;
      const bool inside =
          at >= 0 && view.stride() > 0 && at / view.stride() < view.rows() && at % view.stride() < view.cols();
      if (!inside) hash = MixSeed(hash, std::bit_cast<uint32_t>(v[i]));
    }
    return hash;
  }
  MatrixView view;

 private:
  std::vector<float> values_;
};

inline void ExpectClose(float a, float b, double tolerance, const std::string& what) {
  if (std::isnan(b)) {
    EXPECT_TRUE(std::isnan(a)) << what << ": " << a << " instead of NaN";
  } else if (std::isinf(b)) {
    EXPECT_EQ(a, b) << what;
  } else {
    EXPECT_NEAR(a, b, tolerance * (1 + std::abs(static_cast<double>(b)))) << what;
  }
}

inline void ExpectClose(ConstMatrixView a, ConstMatrixView b, double tolerance, const std::string& what) {
  for (int64_t r = 0; r < a.rows(); ++r) {
    for (int64_t c = 0; c < a.cols(); ++c) ExpectClose(a(r, c), b(r, c), tolerance, what);
  }
}

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace antiphon::testing
