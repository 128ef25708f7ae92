#include "parallel/sparse_links.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "base/random.h"
#include "parallel/model_parts.h"

namespace antiphon::parallel {
namespace {

std::vector<int> Draw(nn::OutputRange range, int count, Rng rng) {
  std::vector<int> units(static_cast<size_t>(range.count));
  std::iota(units.begin(), units.end(), range.first);
  if (range.count <= count) return units;
  rng.Shuffle(std::span(units));
  units.resize(static_cast<size_t>(count));
  std::sort(units.begin(), units.end());
  return units;
}

}  // namespace

SparseLinks::SparseLinks(int units, int ranks, int links, uint64_t seed) : units_(units) {
  for (int from = 0; from < ranks; ++from) {
    const nn::OutputRange range = EvenRange(units, from, ranks);
    std::vector<std::vector<int>>& seen = seen_.emplace_back();
    for (int to = 0; to < ranks; ++to) {
      const auto pair = static_cast<uint64_t>(int64_t{from} * ranks + to);
      seen.push_back(Draw(range, to == from ? range.count : links, Rng(seed, pair)));
    }
  }
}

std::vector<uint8_t> SparseLinks::InputsOf(int to, int copies) const {
  std::vector<uint8_t> inputs(static_cast<size_t>(units_) * static_cast<size_t>(copies), 0);
  for (size_t from = 0; from < seen_.size(); ++from) {
    for (const int unit : Seen(static_cast<int>(from), to)) inputs[static_cast<size_t>(unit)] = 1;
  }
  for (int copy = 1; copy < copies; ++copy) std::copy_n(inputs.data(), units_, inputs.data() + int64_t{copy} * units_);
  return inputs;
}

void PickColumns(ConstMatrixView from, std::span<const int> columns, int first, std::vector<float>& values) {
  values.resize(static_cast<size_t>(from.rows()) * columns.size());
  float* to = values.data();
  for (int64_t n = 0; n < from.rows(); ++n) {
    const float* row = from.Row(n).data();
    for (const int c : columns) *to++ = row[c - first];
  }
}

void AddToColumns(std::span<const float> values, std::span<const int> columns, int first, MatrixView to) {
  CHECK_EQ(values.size(), static_cast<size_t>(to.rows()) * columns.size());
  const float* from = values.data();
  for (int64_t n = 0; n < to.rows(); ++n) {
    float* row = to.Row(n).data();
    for (const int c : columns) row[c - first] += *from++;
  }
}

}  // namespace antiphon::parallel
