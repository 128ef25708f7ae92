#include "feat/splice.h"

#include <algorithm>

namespace antiphon::feat {

void SpliceRow(ConstMatrixView frames, int64_t t, int left, int right, float* out) {
  for (int64_t s = t - left; s <= t + right; ++s) {
    const auto row = frames.Row(std::clamp<int64_t>(s, 0, frames.rows() - 1));
    out = std::copy(row.begin(), row.end(), out);
  }
}

Matrix Splice(ConstMatrixView frames, int left, int right) {
  CHECK(left >= 0 && right >= 0) << left << " " << right;
  Matrix out;
  out.Resize(frames.rows(), frames.cols() * (left + 1 + right));
  for (int64_t t = 0; t < frames.rows(); ++t) SpliceRow(frames, t, left, right, out.Row(t).data());
  return out;
}

std::vector<std::vector<float>> DeltaFilters(int order, int window) {
  CHECK(order >= 0 && window >= 1) << order << " " << window;
  std::vector<std::vector<float>> filters = {{1.0f}};
  float normalizer = 0.0f;
  for (int j = 1; j <= window; ++j) normalizer += static_cast<float>(2 * j * j);
  for (int k = 1; k <= order; ++k) {
    const std::vector<float>& last = filters.back();
    std::vector<float> filter(last.size() + static_cast<size_t>(2 * window), 0.0f);
    for (int j = -window; j <= window; ++j) {
      for (size_t i = 0; i < last.size(); ++i) {
        filter[static_cast<size_t>(j + window) + i] += static_cast<float>(j) * last[i];
      }
    }
    for (float& w : filter) w /= normalizer;
    filters.push_back(std::move(filter));
  }
  return filters;
}

void AddDeltasRow(ConstMatrixView frames, int64_t t, const std::vector<std::vector<float>>& filters, float* out) {
  const int64_t dim = frames.cols();
  for (const std::vector<float>& filter : filters) {
    std::fill_n(out, dim, 0.0f);
    const auto reach = static_cast<int64_t>(filter.size() / 2);
    for (int64_t j = -reach; j <= reach; ++j) {
      const float weight = filter[static_cast<size_t>(j + reach)];
      if (weight == 0.0f) continue;
      const float* row = frames.Row(std::clamp<int64_t>(t + j, 0, frames.rows() - 1)).data();
      for (int64_t d = 0; d < dim; ++d) out[d] += weight * row[d];
    }
    out += dim;
  }
}

Matrix AddDeltas(ConstMatrixView frames, int order, int window) {
  const auto filters = DeltaFilters(order, window);
  Matrix out;
  out.Resize(frames.rows(), frames.cols() * (order + 1));
  for (int64_t t = 0; t < frames.rows(); ++t) AddDeltasRow(frames, t, filters, out.Row(t).data());
  return out;
}

}  // namespace antiphon::feat
