// Both libraries behind math/gemm.h, on any CPU that has them.
#include "math/product.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/random.h"
#include "math/gemm.h"
#include "math/matrix.h"
#include "math/product_library.h"

namespace antiphon {
namespace {

struct Case {
  std::string library;
  void (*multiply)(const MatrixProduct& product);
  bool bf16;
};

std::vector<Case> Cases() {
  std::vector<Case> cases = {
      {"packed", &MultiplyPacked, false}, {"packed", &MultiplyPacked, true}, {"onednn", &MultiplyWithOneDnn, false}};
  if (OneDnnMultipliesBf16()) cases.push_back({"onednn", &MultiplyWithOneDnn, true});
  return cases;
}

// Values that both precisions hold exactly, with rows that are no multiple of a vector apart.
template <class T>
struct Factor {
  Factor(int64_t rows, int64_t cols, uint64_t seed) : stride(cols + 5), values(static_cast<size_t>(rows * stride)) {
    Rng rng(seed);
    for (T& v : values) {
      const Bf16 rounded = ToBf16(static_cast<float>(rng.Normal()));
      if constexpr (std::is_same_v<T, Bf16>) v = rounded;
      if constexpr (std::is_same_v<T, float>) v = ToFloat(rounded);
    }
  }
  int64_t stride;
  std::vector<T> values;
};

struct ProductShape {
  int64_t m, n, k;
};

// A product of its own memory: C begins with ones.
template <class T>
class Trial {
 public:
  Trial(const ProductShape& s, bool trans_a, bool trans_b)
      : a_(trans_a ? s.k : s.m, trans_a ? s.m : s.k, 1), b_(trans_b ? s.n : s.k, trans_b ? s.k : s.n, 2), shape_(s) {
    product_ = {.bf16 = std::is_same_v<T, Bf16>,
                .m = s.m,
                .n = s.n,
                .k = s.k,
                .a = a_.values.data(),
                .b = b_.values.data(),
                .lda = a_.stride,
                .ldb = b_.stride,
                .trans_a = trans_a,
                .trans_b = trans_b,
                .ldc = s.n + 3};
  }
  MatrixProduct& product() { return product_; }
  std::vector<float> Run(void (*multiply)(const MatrixProduct&), int threads) {
    const ComputeThreadsScope scope(threads);
    std::vector<float> c(static_cast<size_t>(shape_.m * product_.ldc), 1.0f);
    product_.c = c.data();
    multiply(product_);
    return c;
  }
  double Sum(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t l = 0; l < shape_.k; ++l) {
      const T x = a_.values[static_cast<size_t>(product_.trans_a ? l * a_.stride + i : i * a_.stride + l)];
      const T y = b_.values[static_cast<size_t>(product_.trans_b ? j * b_.stride + l : l * b_.stride + j)];
      sum += Double(x) * Double(y);
    }
    return sum;
  }

 private:
  static double Double(float x) { return static_cast<double>(x); }
  static double Double(Bf16 x) { return static_cast<double>(ToFloat(x)); }
  Factor<T> a_, b_;
  ProductShape shape_;
  MatrixProduct product_;
};

// Every class of shapes: single rows and columns, edges of tiles, many pieces of the depth, long and flat ones, rows 4
// kB apart.
constexpr ProductShape kProductShapes[] = {
    {1, 1, 1},     {1, 500, 300},   {300, 1, 500},   {6, 16, 256},   {7, 17, 257},   {64, 64, 1},    {5, 300, 77},
    {97, 130, 33}, {256, 80, 1000}, {80, 1000, 256}, {700, 300, 64}, {13, 40, 2000}, {50, 40, 1019}, {40, 50, 1019}};

template <class Body>
void ForAll(Body body) {
  for (const Case& c : Cases()) {
    for (const ProductShape& s : kProductShapes) {
      for (const bool trans_a : {false, true}) {
        for (const bool trans_b : {false, true}) {
          SCOPED_TRACE(c.library + (c.bf16 ? " bf16 " : " fp32 ") + std::to_string(s.m) + " " + std::to_string(s.n) +
                       " " + std::to_string(s.k) + (trans_a ? " T" : " N") + (trans_b ? "T" : "N"));
          if (c.bf16) {
            body(c, s, Trial<Bf16>(s, trans_a, trans_b));
          } else {
            body(c, s, Trial<float>(s, trans_a, trans_b));
          }
        }
      }
    }
  }
}

TEST(Product, IsThePlainSum) {
  ForAll([](const Case& c, const ProductShape& s, auto trial) {
    trial.product().accumulate = 0.5f;
    const std::vector<float> found = trial.Run(c.multiply, 2);
    Rng rng(3);
    // All of a small product, and some elements of a large one: its corners first.
    for (int64_t at = 0; at < std::min<int64_t>(s.m * s.n, 300); ++at) {
      const auto i = at == 0 ? s.m - 1 : static_cast<int64_t>(rng.Below(static_cast<uint64_t>(s.m)));
      const auto j = at == 0 ? s.n - 1 : static_cast<int64_t>(rng.Below(static_cast<uint64_t>(s.n)));
      ASSERT_NEAR(found[static_cast<size_t>(i * trial.product().ldc + j)], trial.Sum(i, j) + 0.5,
                  1e-5 * (20 + static_cast<double>(s.k)))
          << i << " " << j;
    }
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = s.n; j < trial.product().ldc; ++j) {
        ASSERT_EQ(found[static_cast<size_t>(i * trial.product().ldc + j)], 1.0f) << "written beyond the product";
      }
    }
  });
}

TEST(Product, HasTheSameBitsWithAnyNumberOfThreads) {
  ForAll([](const Case& c, const ProductShape&, auto trial) {
    const std::vector<float> bias(2000, 0.25f);
    for (const bool epilogue : {false, true}) {
      trial.product().accumulate = epilogue ? 0.0f : 1.0f;
      trial.product().bias = epilogue ? bias.data() : nullptr;
      trial.product().activation = epilogue ? Activation::kSigmoid : Activation::kNone;
      const std::vector<float> one = trial.Run(c.multiply, 1);
      for (const int threads : {2, 3, 4, 16}) {
        const std::vector<float> several = trial.Run(c.multiply, threads);
        ASSERT_EQ(std::memcmp(several.data(), one.data(), one.size() * sizeof(float)), 0) << threads;
      }
    }
  });
}

TEST(Product, HasTheSameBitsBesideOtherWork) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 3; ++i) {
    busy.emplace_back([&] {
      while (!stop) std::this_thread::yield();
    });
  }
  for (const Case& c : Cases()) {
    if (c.bf16) continue;
    Trial<float> trial({200, 500, 300}, true, false);
    const std::vector<float> one = trial.Run(c.multiply, 1);
    for (int round = 0; round < 50; ++round) ASSERT_EQ(trial.Run(c.multiply, 3), one) << c.library;
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
}

// So deep that what all tasks share is packed in two parts.
TEST(Product, OfPanelsIsThePlainSumInSeveralRanges) {
  const std::vector<float> bias(110, 3.0f);
  for (const bool trans_a : {false, true}) {
    for (const ProductShape& shape : {ProductShape{110, 100, 25000}, ProductShape{100, 110, 25000}}) {
      Trial<float> trial(shape, trans_a, true);
      trial.product().bias = bias.data();
      const std::vector<float> found = trial.Run(&MultiplyPacked, 3);
      ASSERT_EQ(trial.Run(&MultiplyPacked, 1), found);
      for (int64_t i = 0; i < shape.m; i += 7) {
        for (int64_t j = 0; j < shape.n; j += 7) {
          ASSERT_NEAR(found[static_cast<size_t>(i * trial.product().ldc + j)], trial.Sum(i, j) + 3, 0.02);
        }
      }
    }
  }
}

// What a product of our own gives for an element does not depend on what stands around it: the whole has its columns
// divided among the threads, the part its rows.
TEST(Product, OfPanelsHasTheSameBitsInParts) {
  Trial<float> whole({100, 200, 700}, false, true);
  const std::vector<float> expected = whole.Run(&MultiplyPacked, 2);
  const int64_t ldc = whole.product().ldc;
  Trial<float> part({100, 200, 700}, false, true);
  MatrixProduct& p = part.product();
  const int64_t row = 41, col = 93;
  p.a = static_cast<const float*>(p.a) + row * p.lda;
  p.b = static_cast<const float*>(p.b) + col * p.ldb;
  p.m = 29;
  p.n = 17;
  const std::vector<float> found = part.Run(&MultiplyPacked, 1);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      ASSERT_EQ(found[static_cast<size_t>(i * ldc + j)], expected[static_cast<size_t>((row + i) * ldc + col + j)]);
    }
  }
}

TEST(Product, IsScaled) {
  for (const Case& c : Cases()) {
    if (c.bf16) continue;
    Trial<float> trial({30, 40, 600}, false, false);
    trial.product().alpha = -0.25f;
    trial.product().accumulate = 2.0f;
    const std::vector<float> found = trial.Run(c.multiply, 2);
    for (int64_t i = 0; i < 30; ++i) {
      for (int64_t j = 0; j < 40; ++j) {
        ASSERT_NEAR(found[static_cast<size_t>(i * 43 + j)], -0.25 * trial.Sum(i, j) + 2.0, 1e-3) << c.library;
      }
    }
  }
}

TEST(Product, ActivationsOfLargeSumsAreTheirLimits) {
  for (const Case& c : Cases()) {
    if (c.bf16) continue;
    Trial<float> trial({3, 20, 4}, false, true);
    for (const auto& [activation, lowest] : {std::pair(Activation::kSigmoid, 0.0f), {Activation::kTanh, -1.0f}}) {
      trial.product().accumulate = 0;
      trial.product().activation = activation;
      for (const float size : {50.0f, 200.0f, 1000.0f, 1e6f, 1e30f, std::numeric_limits<float>::infinity()}) {
        std::vector<float> bias(20, size);
        for (size_t i = 0; i < bias.size(); i += 2) bias[i] = -size;
        trial.product().bias = bias.data();
        const std::vector<float> found = trial.Run(c.multiply, 1);
        for (int64_t j = 0; j < 20; ++j) {
          EXPECT_NEAR(found[static_cast<size_t>(j)], j % 2 == 0 ? lowest : 1.0f, 1e-6) << c.library << " " << size;
        }
      }
    }
  }
}

TEST(ProductLibrary, IsNamedWithItsInstructionSet) {
  EXPECT_NE(GemmBackend().find(','), std::string::npos);
  EXPECT_EQ(FastBf16(), LibraryFor(true).multiply == &MultiplyWithOneDnn);
}

}  // namespace
}  // namespace antiphon
