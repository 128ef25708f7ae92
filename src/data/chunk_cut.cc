#include "data/chunk_cut.h"

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

namespace antiphon::data::internal {
namespace {

// Longer utterances begin with chunks of the preferred width.
constexpr int32_t kWidestChunks = 8;

}  // namespace

ChunkCut::ChunkCut(std::span<const int> widths, int stride) : stride_(stride) {
  CHECK(!widths.empty() && stride > 0);
  std::vector<int32_t> outputs;
  for (const int width : widths) outputs.push_back(Rounded(width) / stride_);
  preferred_ = outputs.front();
  const int32_t widest = *std::ranges::max_element(outputs);
  longest_ = kWidestChunks * widest;
  const auto sums = static_cast<size_t>(longest_ + widest + 1);
  last_.assign(sums, 0);
  others_.assign(sums, 0);
  for (int32_t sum = 1; sum < static_cast<int32_t>(sums); ++sum) {
    for (const int32_t width : outputs) {
      const int32_t before = sum - width;
      if (before < 0 || (before > 0 && last_[static_cast<size_t>(before)] == 0)) continue;
      const int32_t others = others_[static_cast<size_t>(before)] + (width == preferred_ ? 0 : 1);
      auto& last = last_[static_cast<size_t>(sum)];
      auto& fewest = others_[static_cast<size_t>(sum)];
      if (last != 0 && fewest <= others) continue;
      last = width;
      fewest = others;
    }
  }
}

std::vector<int32_t> ChunkCut::WidthsFor(int32_t outputs) const {
  std::vector<int32_t> widths;
  while (outputs > longest_) {
    widths.push_back(preferred_);
    outputs -= preferred_;
  }
  int32_t best = 0;
  for (int32_t sum = 1; sum < static_cast<int32_t>(last_.size()); ++sum) {
    if (last_[static_cast<size_t>(sum)] == 0) continue;
    // The larger one of two that are as near.
    if (best == 0 || std::abs(sum - outputs) <= std::abs(best - outputs)) best = sum;
  }
  for (int32_t sum = best; sum > 0; sum -= last_[static_cast<size_t>(sum)]) {
    widths.push_back(last_[static_cast<size_t>(sum)]);
  }
  return widths;
}

std::vector<ChunkCut::Piece> ChunkCut::Cut(int32_t begin, int32_t end, Rng* rng) const {
  const int32_t outputs = (end - begin + stride_ - 1) / stride_;
  if (outputs <= 0) return {};
  std::vector<int32_t> widths = WidthsFor(outputs);
  int32_t spare = outputs;
  for (const int32_t width : widths) spare -= width;
  int32_t first = begin;
  if (rng != nullptr) {
    rng->Shuffle(std::span(widths));
    if (spare > 0) first += static_cast<int32_t>(rng->Below(static_cast<uint64_t>(spare) + 1)) * stride_;
  }
  std::vector<Piece> pieces;
  for (const int32_t width : widths) {
    pieces.push_back({first, std::min(width * stride_, end - first)});
    first += width * stride_;
  }
  return pieces;
}

}  // namespace antiphon::data::internal
