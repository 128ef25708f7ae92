#include <algorithm>
#include <cstddef>

#include "base/compute_threads.h"
#include "math/matrix.h"
#include "math/product.h"
#include "math/product_tile.h"

namespace antiphon {
namespace {

// A panel and a sliver of this depth fit into the first cache, a strip's panels and a block of slivers into the second.
constexpr int64_t kMostDepth = 256;
constexpr int64_t kStripCols = 256;
constexpr int64_t kBlockSlivers = 16;
// The packed left factor stays in the last cache, however many rows there are.
constexpr int64_t kLeftBytes = int64_t{16} << 20;
// Below this, other threads are not woken.
constexpr int64_t kOperationsPerTask = int64_t{1} << 18;

int64_t PartsOf(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

// Memory of a thread for what it packs; grows to what the largest product needs.
float* LeftMemory(int64_t values) {
  thread_local Matrix memory;
  memory.Resize(1, values);
  return memory.data();
}
float* RightMemory(int64_t values) {
  thread_local Matrix memory;
  memory.Resize(1, values);
  return memory.data();
}

// The rows [first_row, first_row + rows) of a product.
class RowsOfProduct {
 public:
  RowsOfProduct(const MatrixProduct& product, const ProductTile& tile, int64_t first_row, int64_t rows)
      : p_(product),
        tile_(tile),
        pack_(product.bf16 ? tile.pack_bf16 : tile.pack),
        value_bytes_(product.bf16 ? 2 : 4),
        first_row_(first_row),
        rows_(rows),
        slivers_(PartsOf(rows, kSliverRows)),
        panels_(PartsOf(product.n, tile.panel_cols)),
        chunks_(PartsOf(product.k, kMostDepth)),
        left_(LeftMemory(slivers_ * kSliverRows * product.k)) {}

  void Run() {
    const int64_t share = kBlockSlivers;
    const int64_t parts = PartsOf(slivers_, share);
    Parallel(parts * chunks_, rows_ * p_.k * 8, [&](int64_t task) {
      PackLeft(task / parts, task % parts * share, std::min(slivers_, (task % parts + 1) * share));
    });
    // As many tasks as keep all threads busy to the end: which one computes an element changes nothing.
    const int64_t strip = std::max<int64_t>(1, kStripCols / tile_.panel_cols);
    const int64_t strips = PartsOf(panels_, strip);
    const int64_t wanted = PartsOf(4 * int64_t{ComputeThreads()}, strips);
    const int64_t row_parts = std::clamp<int64_t>(slivers_ / kBlockSlivers, 1, wanted);
    Parallel(strips * row_parts, 2 * rows_ * p_.n * p_.k, [&](int64_t task) {
      const int64_t part = task / strips, s = task % strips;
      MultiplyStrip(slivers_ * part / row_parts, slivers_ * (part + 1) / row_parts, s * strip,
                    std::min(panels_, (s + 1) * strip));
    });
  }

 private:
  template <class Body>
  void Parallel(int64_t tasks, int64_t operations, Body body) {
    if (operations < 2 * kOperationsPerTask) {
      for (int64_t t = 0; t < tasks; ++t) body(t);
      return;
    }
    ParallelPieces(tasks, [&](int64_t t, int /*thread*/) { body(t); });
  }

  int64_t ChunkBegin(int64_t chunk) const { return p_.k * chunk / chunks_; }
  float* Sliver(int64_t chunk, int64_t sliver) const {
    const int64_t begin = ChunkBegin(chunk), depth = ChunkBegin(chunk + 1) - begin;
    return left_ + kSliverRows * (slivers_ * begin + sliver * depth);
  }
  const void* At(const void* matrix, int64_t index) const {
    return static_cast<const std::byte*>(matrix) + index * value_bytes_;
  }

  void PackLeft(int64_t chunk, int64_t begin, int64_t end) const {
    const int64_t first = ChunkBegin(chunk), depth = ChunkBegin(chunk + 1) - first;
    const int64_t row_stride = p_.trans_a ? 1 : p_.lda, depth_stride = p_.trans_a ? p_.lda : 1;
    pack_({.from = At(p_.a, (first_row_ + begin * kSliverRows) * row_stride + first * depth_stride),
           .line_stride = row_stride,
           .depth_stride = depth_stride,
           .lines = std::min(end * kSliverRows, rows_) - begin * kSliverRows,
           .depth = depth,
           .width = kSliverRows,
           .to = Sliver(chunk, begin)});
  }

  // Panels [begin, end) of a chunk, one after the other.
  void PackRight(int64_t chunk, int64_t begin, int64_t end, float* to) const {
    const int64_t first = ChunkBegin(chunk), depth = ChunkBegin(chunk + 1) - first;
    const int64_t col_stride = p_.trans_b ? p_.ldb : 1, depth_stride = p_.trans_b ? 1 : p_.ldb;
    const int64_t col = begin * tile_.panel_cols;
    pack_({.from = At(p_.b, col * col_stride + first * depth_stride),
           .line_stride = col_stride,
           .depth_stride = depth_stride,
           .lines = std::min(end * tile_.panel_cols, p_.n) - col,
           .depth = depth,
           .width = tile_.panel_cols,
           .to = to});
  }

  void MultiplyStrip(int64_t first_sliver, int64_t last_sliver, int64_t first_panel, int64_t last_panel) const {
    float* const right = RightMemory((last_panel - first_panel) * tile_.panel_cols * std::min(p_.k, kMostDepth));
    for (int64_t chunk = 0; chunk < chunks_; ++chunk) {
      PackRight(chunk, first_panel, last_panel, right);
      for (int64_t s = first_sliver; s < last_sliver; s += kBlockSlivers) {
        MultiplyBlock(chunk, s, std::min(last_sliver, s + kBlockSlivers), first_panel, last_panel, right);
      }
    }
  }

  void MultiplyBlock(int64_t chunk, int64_t first_sliver, int64_t last_sliver, int64_t first_panel, int64_t last_panel,
                     const float* right) const {
    const int64_t depth = ChunkBegin(chunk + 1) - ChunkBegin(chunk), width = tile_.panel_cols;
    for (int64_t panel = first_panel; panel < last_panel; ++panel, right += depth * width) {
      for (int64_t s = first_sliver; s < last_sliver; ++s) {
        tile_.multiply({.sliver = Sliver(chunk, s),
                        .panel = right,
                        .depth = depth,
                        .c = C(s, panel),
                        .c_stride = p_.ldc,
                        .rows = std::min(kSliverRows, rows_ - s * kSliverRows),
                        .cols = std::min(width, p_.n - panel * width),
                        .alpha = p_.alpha,
                        .accumulate = chunk == 0 ? p_.accumulate : 1.0f});
      }
    }
    if (chunk + 1 < chunks_ || (p_.bias == nullptr && p_.activation == Activation::kNone)) return;
    const int64_t col = first_panel * width, cols = std::min(p_.n, last_panel * width) - col;
    const int64_t last_row = std::min(rows_, last_sliver * kSliverRows);
    for (int64_t r = first_sliver * kSliverRows; r < last_row; ++r) {
      tile_.finish(p_.c + (first_row_ + r) * p_.ldc + col, p_.bias == nullptr ? nullptr : p_.bias + col, p_.activation,
                   cols);
    }
  }

  float* C(int64_t sliver, int64_t panel) const {
    return p_.c + (first_row_ + sliver * kSliverRows) * p_.ldc + panel * tile_.panel_cols;
  }

  const MatrixProduct& p_;
  const ProductTile& tile_;
  void (*const pack_)(const PackArgs&);
  const int64_t value_bytes_, first_row_, rows_, slivers_, panels_, chunks_;
  float* const left_;
};

}  // namespace

void MultiplyPacked(const MatrixProduct& product) {
  const ProductTile& tile = ProductTile::OfCpu();
  const int64_t most = std::max(kBlockSlivers * kSliverRows, kLeftBytes / 4 / product.k / kSliverRows * kSliverRows);
  const int64_t parts = PartsOf(product.m, most);
  const int64_t rows = PartsOf(PartsOf(product.m, parts), kSliverRows) * kSliverRows;
  for (int64_t first = 0; first < product.m; first += rows) {
    RowsOfProduct(product, tile, first, std::min(rows, product.m - first)).Run();
  }
}

}  // namespace antiphon
