#include "math/product_tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "math/product_tile.cc"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "math/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace antiphon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Lanes = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Lanes>;
constexpr int64_t kLanes = hn::MaxLanes(Lanes());
// Sums, a vector of the panel each and one value of the sliver fill the registers: 16 of them, or 32.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
constexpr int kVectors = 4;
#else
constexpr int kVectors = 2;
#endif
constexpr int64_t kPanelCols = kVectors * kLanes;
#define ANTIPHON_UNROLL _Pragma("GCC unroll 8")

template <class D>
HWY_INLINE hn::Vec<D> LoadWidened(D d, const float* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadWidened(D d, const Bf16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::Rebind<uint32_t, D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, &p->bits))));
}
HWY_INLINE float Widened(float x) { return x; }
HWY_INLINE float Widened(Bf16 x) { return ToFloat(x); }

// Four lines over the depth, four steps at a time turned round in registers.
template <class T>
HWY_INLINE void PackFourLines(const T* from, int64_t stride, int64_t depth, int64_t width, float* to) {
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<float, 4> four;
  const hn::RepartitionToWide<decltype(four)> wide;
  for (; k + 4 <= depth; k += 4) {
    const auto a = LoadWidened(four, from + k), b = LoadWidened(four, from + stride + k);
    const auto c = LoadWidened(four, from + 2 * stride + k), d = LoadWidened(four, from + 3 * stride + k);
    const auto ab = hn::BitCast(wide, hn::InterleaveLower(four, a, b));
    const auto cd = hn::BitCast(wide, hn::InterleaveLower(four, c, d));
    const auto ab2 = hn::BitCast(wide, hn::InterleaveUpper(four, a, b));
    const auto cd2 = hn::BitCast(wide, hn::InterleaveUpper(four, c, d));
    hn::StoreU(hn::BitCast(four, hn::InterleaveLower(wide, ab, cd)), four, to + k * width);
    hn::StoreU(hn::BitCast(four, hn::InterleaveUpper(wide, ab, cd)), four, to + (k + 1) * width);
    hn::StoreU(hn::BitCast(four, hn::InterleaveLower(wide, ab2, cd2)), four, to + (k + 2) * width);
    hn::StoreU(hn::BitCast(four, hn::InterleaveUpper(wide, ab2, cd2)), four, to + (k + 3) * width);
  }
#endif
  for (; k < depth; ++k) {
    for (int64_t l = 0; l < 4; ++l) to[k * width + l] = Widened(from[l * stride + k]);
  }
}

// Lines that are not adjacent in memory: each along its depth.
template <class T>
HWY_INLINE void PackAlong(const PackArgs& args) {
  float* to = args.to;
  for (int64_t first = 0; first < args.lines; first += args.width, to += args.depth * args.width) {
    const T* from = static_cast<const T*>(args.from) + first * args.line_stride;
    const int64_t lines = std::min(args.width, args.lines - first);
    int64_t l = 0;
    for (; l + 4 <= lines; l += 4) {
      PackFourLines(from + l * args.line_stride, args.line_stride, args.depth, args.width, to + l);
    }
    for (; l < args.width; ++l) {
      for (int64_t k = 0; k < args.depth; ++k) {
        to[k * args.width + l] = l < lines ? Widened(from[l * args.line_stride + k]) : 0.0f;
      }
    }
  }
}

template <int64_t kWidth, class T>
HWY_INLINE void CopyLines(const T* from, float* to) {
  if constexpr (kWidth == kPanelCols) {
    ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(LoadWidened(Lanes(), from + v * kLanes), Lanes(), to + v * kLanes);
    }
  } else {
    for (int64_t l = 0; l < kWidth; ++l) to[l] = Widened(from[l]);
  }
}

// Adjacent lines: step by step of the depth, all of them while their memory is at hand.
constexpr int64_t kAhead = 12;
template <int64_t kWidth, class T>
HWY_INLINE void PackAcross(const PackArgs& args) {
  for (int64_t k = 0; k < args.depth; ++k) {
    const T* from = static_cast<const T*>(args.from) + k * args.depth_stride;
    // Every step is another page: what comes next is asked for while this one is copied.
    const T* ahead = from + std::min(kAhead, args.depth - 1 - k) * args.depth_stride;
    for (int64_t l = 0; l < args.lines; l += 64 / int64_t{sizeof(T)}) hwy::Prefetch(ahead + l);
    float* to = args.to + k * kWidth;
    int64_t l = 0;
    for (; l + kWidth <= args.lines; l += kWidth, to += args.depth * kWidth) CopyLines<kWidth>(from + l, to);
    if (l == args.lines) continue;
    for (int64_t i = 0; i < kWidth; ++i) to[i] = l + i < args.lines ? Widened(from[l + i]) : 0.0f;
  }
}

template <class T>
HWY_INLINE void PackOf(const PackArgs& args) {
  if (args.line_stride != 1) return PackAlong<T>(args);
  if (args.width == kSliverRows) return PackAcross<kSliverRows, T>(args);
  PackAcross<kPanelCols, T>(args);
}

void Pack(const PackArgs& args) { PackOf<float>(args); }
void PackBf16(const PackArgs& args) { PackOf<Bf16>(args); }

// Stores rows of sums; `put(sum, c, v)` writes vector v of a row.
template <class Put>
HWY_INLINE void StoreRows(const TileArgs& args, const Vector (&sums)[kSliverRows][kVectors], Put put) {
  ANTIPHON_UNROLL for (int r = 0; r < kSliverRows; ++r) {
    if (r >= args.rows) break;
    ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) put(sums[r][v], args.c + r * args.c_stride + v * kLanes, v);
  }
}

// One step of the depth of the left factor's rows, at most kSliverRows: from a sliver, or from where the matrix has
// them.
struct FromSliver {
  explicit FromSliver(const TileArgs& args) : left(args.left) {}
  HWY_INLINE float operator()(int64_t k, int r) const { return left[k * kSliverRows + r]; }
  const float* left;
};
struct FromRows {
  explicit FromRows(const TileArgs& args) {
    // Beyond the matrix its last row is read again; those sums are not stored.
    for (int r = 0; r < kSliverRows; ++r) row[r] = args.left + std::min<int64_t>(r, args.rows - 1) * args.left_stride;
  }
  HWY_INLINE float operator()(int64_t k, int r) const { return row[r][k]; }
  const float* row[kSliverRows];
};

template <class Left>
HWY_INLINE void MultiplyTile(const TileArgs& args) {
  const Lanes d;
  Vector sums[kSliverRows][kVectors];
  ANTIPHON_UNROLL for (int r = 0; r < kSliverRows; ++r) {
    ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::Zero(d);
  }
  for (int64_t r = 0; r < args.rows; ++r) {
    hwy::Prefetch(args.c + r * args.c_stride);
    hwy::Prefetch(args.c + r * args.c_stride + args.cols - 1);
  }
  const Left left(args);
  const float* w = args.panel;
  for (int64_t k = 0; k < args.depth; ++k, w += kPanelCols) {
    Vector weight[kVectors];
    ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) weight[v] = hn::Load(d, w + v * kLanes);
    ANTIPHON_UNROLL for (int r = 0; r < kSliverRows; ++r) {
      const auto value = hn::Set(d, left(k, r));
      ANTIPHON_UNROLL for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(value, weight[v], sums[r][v]);
    }
  }
  const auto alpha = hn::Set(d, args.alpha), old = hn::Set(d, args.accumulate);
  if (args.cols == kPanelCols) {
    if (args.accumulate == 0.0f) {
      return StoreRows(args, sums, [&](Vector sum, float* c, int) HWY_ATTR { hn::StoreU(hn::Mul(alpha, sum), d, c); });
    }
    return StoreRows(args, sums, [&](Vector sum, float* c, int) HWY_ATTR {
      hn::StoreU(hn::MulAdd(old, hn::LoadU(d, c), hn::Mul(alpha, sum)), d, c);
    });
  }
  StoreRows(args, sums, [&](Vector sum, float* c, int v) HWY_ATTR {
    const int64_t lanes = std::clamp<int64_t>(args.cols - v * kLanes, 0, kLanes);
    if (lanes == 0) return;
    auto value = hn::Mul(alpha, sum);
    if (args.accumulate != 0.0f) value = hn::MulAdd(old, LoadFirst(d, c, lanes), value);
    StoreFirst(d, value, c, lanes);
  });
}

void Multiply(const TileArgs& args) { MultiplyTile<FromSliver>(args); }
void MultiplyRows(const TileArgs& args) { MultiplyTile<FromRows>(args); }

template <Activation kF>
HWY_INLINE void FinishRow(float* row, const float* bias, int64_t n) {
  const hn::ScalableTag<float> d;
  if (bias == nullptr) {
    return ForVectors(d, n, [&](auto load, auto store) HWY_ATTR { store(Activated<kF>(d, load(row)), row); });
  }
  ForVectors(d, n,
             [&](auto load, auto store) HWY_ATTR { store(Activated<kF>(d, hn::Add(load(row), load(bias))), row); });
}

void Finish(float* row, const float* bias, Activation activation, int64_t n) {
  if (activation == Activation::kRelu) return FinishRow<Activation::kRelu>(row, bias, n);
  if (activation == Activation::kSigmoid) return FinishRow<Activation::kSigmoid>(row, bias, n);
  if (activation == Activation::kTanh) return FinishRow<Activation::kTanh>(row, bias, n);
  FinishRow<Activation::kNone>(row, bias, n);
}

const ProductTile* Tile() {
  static constexpr ProductTile kTile = {kPanelCols, &Pack, &PackBf16, &Multiply, &MultiplyRows, &Finish};
  return &kTile;
}

}  // namespace HWY_NAMESPACE
}  // namespace antiphon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace antiphon {
namespace {

HWY_EXPORT(Tile);

}  // namespace

const ProductTile& ProductTile::OfCpu() {
  static const ProductTile tile = *HWY_DYNAMIC_DISPATCH(Tile)();
  return tile;
}

}  // namespace antiphon
#endif
