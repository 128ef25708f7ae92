#include <algorithm>
#include <cstddef>

#include "base/compute_threads.h"
#include "math/matrix.h"
#include "math/product.h"
#include "math/product_tile.h"

namespace antiphon {
namespace {

// A panel and a sliver of this depth fit into the first cache, a block of slivers or of panels into the second.
constexpr int64_t kMostDepth = 256;
constexpr int64_t kBlockSlivers = 16;
constexpr int64_t kBlockCols = 256;
// What all tasks read, packed, stays in the last cache, if it has up to 8192 lines.
constexpr int64_t kSharedBytes = int64_t{8} << 20;
// With fewer, other threads are not woken.
constexpr int64_t kFewOperations = int64_t{1} << 19;
// So many tasks for each thread, but none of fewer slivers or panels than the second number: each of them reads all
// that is shared.
constexpr int64_t kTasksPerThread = 4;
constexpr int64_t kLeastLines = 4;
// Rows so many bytes apart, or a multiple of it, take the same few places of a cache from one another.
constexpr int64_t kCacheWayBytes = 4096;

int64_t PartsOf(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

// Memory of a thread for what it packs, for its helpers or for itself; grows to what the largest product needs.
float* SharedMemory(int64_t values) {
  thread_local Matrix memory;
  memory.Resize(1, values);
  return memory.data();
}
float* BlockMemory(int64_t values) {
  thread_local Matrix memory;
  memory.Resize(1, values);
  return memory.data();
}

struct Range {
  int64_t begin = 0, end = 0;

  int64_t size() const { return end - begin; }
  /// Part i of `parts` of nearly the same size.
  Range Part(int64_t i, int64_t parts) const { return {begin + size() * i / parts, begin + size() * (i + 1) / parts}; }
};

// The factor with fewer lines (rows of the left one, columns of the right one) is shared by all tasks: packed once. The
// other is divided among the tasks, each of which packs a block of it when it needs it, and finds it in its second
// cache. Rows of the left factor that a tile can read where they lie are not packed at all.
class TiledProduct {
 public:
  TiledProduct(const MatrixProduct& product, const ProductTile& tile)
      : p_(product),
        tile_(tile),
        pack_(product.bf16 ? tile.pack_bf16 : tile.pack),
        value_bytes_(product.bf16 ? 2 : 4),
        slivers_{0, PartsOf(product.m, kSliverRows)},
        panels_{0, PartsOf(product.n, tile.panel_cols)},
        block_panels_(kBlockCols / tile.panel_cols),
        chunks_(PartsOf(product.k, kMostDepth)),
        threads_(product.operations() < kFewOperations ? 1 : ComputeThreads()),
        in_place_(!product.trans_a && !product.bf16 && product.lda * 4 % kCacheWayBytes != 0),
        by_rows_(product.n <= product.m),
        shared_lines_(by_rows_ ? panels_ : slivers_),
        shared_width_(by_rows_ ? tile.panel_cols : kSliverRows) {}

  void Run() {
    const Range lines = by_rows_ ? slivers_ : panels_;
    const int64_t blocks = PartsOf(lines.size(), by_rows_ ? kBlockSlivers : block_panels_);
    const int64_t wanted = threads_ > 1 ? std::min(kTasksPerThread * threads_, lines.size() / kLeastLines) : 1;
    const int64_t tasks = std::max(blocks, wanted);
    const int64_t shared_chunk = shared_lines_.size() * shared_width_ * std::min(p_.k, kMostDepth);
    const int64_t ranges = PartsOf(chunks_, std::max<int64_t>(1, kSharedBytes / 4 / shared_chunk));
    for (int64_t i = 0; i < ranges; ++i) {
      chunk_range_ = Range{0, chunks_}.Part(i, ranges);
      PackShared();
      Parallel(tasks, [&](int64_t task) {
        const Range block = lines.Part(task, tasks);
        by_rows_ ? MultiplyRows(block) : MultiplyCols(block);
      });
    }
  }

 private:
  template <class Body>
  void Parallel(int64_t tasks, Body body) {
    if (threads_ == 1) {
      for (int64_t t = 0; t < tasks; ++t) body(t);
      return;
    }
    ParallelPieces(tasks, [&](int64_t t, int /*thread*/) { body(t); });
  }

  int64_t DepthBegin(int64_t chunk) const { return p_.k * chunk / chunks_; }
  Range DepthOf(int64_t chunk) const { return {DepthBegin(chunk), DepthBegin(chunk + 1)}; }
  const void* At(const void* matrix, int64_t index) const {
    return static_cast<const std::byte*>(matrix) + index * value_bytes_;
  }

  void PackLeft(int64_t chunk, Range slivers, float* to) const {
    const Range depth = DepthOf(chunk);
    const int64_t row_stride = p_.trans_a ? 1 : p_.lda, depth_stride = p_.trans_a ? p_.lda : 1;
    const int64_t row = slivers.begin * kSliverRows;
    pack_({.from = At(p_.a, row * row_stride + depth.begin * depth_stride),
           .line_stride = row_stride,
           .depth_stride = depth_stride,
           .lines = std::min(slivers.end * kSliverRows, p_.m) - row,
           .depth = depth.size(),
           .width = kSliverRows,
           .to = to});
  }

  void PackRight(int64_t chunk, Range panels, float* to) const {
    const Range depth = DepthOf(chunk);
    const int64_t col_stride = p_.trans_b ? p_.ldb : 1, depth_stride = p_.trans_b ? 1 : p_.ldb;
    const int64_t col = panels.begin * tile_.panel_cols;
    pack_({.from = At(p_.b, col * col_stride + depth.begin * depth_stride),
           .line_stride = col_stride,
           .depth_stride = depth_stride,
           .lines = std::min(panels.end * tile_.panel_cols, p_.n) - col,
           .depth = depth.size(),
           .width = tile_.panel_cols,
           .to = to});
  }

  // Packs the shared factor over the depth of the range, chunk after chunk.
  void PackShared() {
    if (!by_rows_ && in_place_) return;
    const int64_t depth = DepthBegin(chunk_range_.end) - DepthBegin(chunk_range_.begin);
    shared_ = SharedMemory(shared_lines_.size() * shared_width_ * depth);
    const int64_t parts = PartsOf(shared_lines_.size() * shared_width_, kBlockCols);
    Parallel(parts * chunk_range_.size(), [&](int64_t task) {
      const int64_t chunk = chunk_range_.begin + task / parts;
      const Range part = shared_lines_.Part(task % parts, parts);
      by_rows_ ? PackRight(chunk, part, Shared(chunk, part.begin)) : PackLeft(chunk, part, Shared(chunk, part.begin));
    });
  }
  float* Shared(int64_t chunk, int64_t line) const {
    const Range depth = DepthOf(chunk);
    const int64_t before = depth.begin - DepthBegin(chunk_range_.begin);
    return shared_ + shared_width_ * (shared_lines_.size() * before + line * depth.size());
  }

  // A block of slivers and all panels; likewise below.
  void MultiplyRows(Range block) const {
    float* const left = in_place_ ? nullptr : BlockMemory(block.size() * kSliverRows * std::min(p_.k, kMostDepth));
    for (int64_t chunk = chunk_range_.begin; chunk < chunk_range_.end; ++chunk) {
      if (!in_place_) PackLeft(chunk, block, left);
      for (int64_t first = 0; first < panels_.end; first += block_panels_) {
        MultiplyBlock(chunk, block, {first, std::min(panels_.end, first + block_panels_)}, left, Shared(chunk, first));
      }
    }
  }
  void MultiplyCols(Range block) const {
    float* const right = BlockMemory(block.size() * tile_.panel_cols * std::min(p_.k, kMostDepth));
    for (int64_t chunk = chunk_range_.begin; chunk < chunk_range_.end; ++chunk) {
      PackRight(chunk, block, right);
      for (int64_t first = 0; first < slivers_.end; first += kBlockSlivers) {
        MultiplyBlock(chunk, {first, std::min(slivers_.end, first + kBlockSlivers)}, block,
                      in_place_ ? nullptr : Shared(chunk, first), right);
      }
    }
  }

  // `left` and `right` are the slivers and panels, packed one after the other; no `left` where rows are read in place.
  void MultiplyBlock(int64_t chunk, Range slivers, Range panels, const float* left, const float* right) const {
    const Range depth = DepthOf(chunk);
    const int64_t width = tile_.panel_cols, sliver_values = kSliverRows * depth.size();
    const auto multiply = in_place_ ? tile_.multiply_rows : tile_.multiply;
    for (int64_t panel = panels.begin; panel < panels.end; ++panel, right += depth.size() * width) {
      for (int64_t s = slivers.begin; s < slivers.end; ++s) {
        const int64_t row = s * kSliverRows, col = panel * width;
        multiply({.left = in_place_ ? static_cast<const float*>(p_.a) + row * p_.lda + depth.begin
                                    : left + (s - slivers.begin) * sliver_values,
                  .left_stride = p_.lda,
                  .panel = right,
                  .depth = depth.size(),
                  .c = p_.c + row * p_.ldc + col,
                  .c_stride = p_.ldc,
                  .rows = std::min(kSliverRows, p_.m - row),
                  .cols = std::min(width, p_.n - col),
                  .alpha = p_.alpha,
                  .accumulate = chunk == 0 ? p_.accumulate : 1.0f});
      }
    }
    if (chunk + 1 < chunks_ || (p_.bias == nullptr && p_.activation == Activation::kNone)) return;
    const int64_t col = panels.begin * width, cols = std::min(p_.n, panels.end * width) - col;
    for (int64_t r = slivers.begin * kSliverRows; r < std::min(p_.m, slivers.end * kSliverRows); ++r) {
      tile_.finish(p_.c + r * p_.ldc + col, p_.bias == nullptr ? nullptr : p_.bias + col, p_.activation, cols);
    }
  }

  const MatrixProduct& p_;
  const ProductTile& tile_;
  void (*const pack_)(const PackArgs&);
  const int64_t value_bytes_;
  const Range slivers_, panels_;
  const int64_t block_panels_, chunks_, threads_;
  const bool in_place_, by_rows_;
  const Range shared_lines_;
  const int64_t shared_width_;
  Range chunk_range_;
  float* shared_ = nullptr;
};

}  // namespace

void MultiplyPacked(const MatrixProduct& product) { TiledProduct(product, ProductTile::OfCpu()).Run(); }

}  // namespace antiphon
