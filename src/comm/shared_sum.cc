#include "comm/shared_sum.h"

#include <algorithm>

#include "base/error.h"

namespace antiphon::comm {
namespace {

constexpr size_t kBlock = 2048;  // of all ranks together they stay in the first caches

void Add(const float* other, size_t size, float* sum) {
#pragma omp simd
  for (size_t i = 0; i < size; ++i) sum[i] += other[i];
}

}  // namespace

void SharedSum::Sum(int rank, std::span<float> values, const std::function<void()>& meet) {
  Rank& me = ranks_[static_cast<size_t>(rank)];
  me.size = values.size();
  for (size_t first = 0; first < values.size(); first += kPiece) {
    const std::span<float> piece = values.subspan(first, std::min(kPiece, values.size() - first));
    const size_t parity = me.pieces++ % 2;
    std::vector<float>& mine = me.values[rank == 0 ? parity : 0];
    if (mine.size() < piece.size()) mine.resize(piece.size());
    std::copy(piece.begin(), piece.end(), mine.begin());
    meet();
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].size == values.size()) continue;
      Throw<InputError>("rank {} adds {} values, rank {} adds {}: the ranks do not run the same experiment", rank,
                        values.size(), r, ranks_[r].size);
    }
    AddPart(static_cast<size_t>(rank), parity, piece.size());
    meet();
    std::copy_n(ranks_[0].values[parity].begin(), piece.size(), piece.begin());
  }
}

void SharedSum::AddPart(size_t rank, size_t parity, size_t size) {
  const size_t n = ranks_.size();
  const size_t end = size * (rank + 1) / n;
  for (size_t first = size * rank / n; first < end; first += kBlock) {
    const size_t count = std::min(kBlock, end - first);
    const auto at = [&](size_t r) { return ranks_[r].values[r == 0 ? parity : 0].data() + first; };
    for (size_t distance = 1; distance < n; distance *= 2) {
      for (size_t r = 0; r + distance < n; r += 2 * distance) Add(at(r + distance), count, at(r));
    }
  }
}

}  // namespace antiphon::comm
