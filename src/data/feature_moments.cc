#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/thread_pool.h"
#include "data/frame_store.h"

namespace antiphon::data {
namespace {

// Passes over a whole store let go of what they have read, so that resident memory is not the store's size.
constexpr double kReleaseAfterFrames = 1 << 17;

}  // namespace

FeatureMoments EstimateMoments(const FrameStore& store, std::span<const size_t> chosen, int64_t max_frames,
                               int num_threads) {
  std::vector<size_t> utterances(chosen.begin(), chosen.end());
  if (chosen.empty()) {
    for (size_t u = 0; u < store.utterances().size(); ++u) utterances.push_back(u);
  }
  const int64_t frames = store.CountFrames(utterances);
  if (frames == 0) Throw<InputError>("'{}' has no frames to estimate moments from", store.folder().string());
  const auto stride = static_cast<size_t>(std::max<int64_t>(1, frames / std::max<int64_t>(1, max_frames)));
  const size_t count = (utterances.size() + stride - 1) / stride;

  const auto dim = static_cast<size_t>(store.feat_dim());
  struct Sums {
    double frames = 0.0;
    std::vector<double> x, xx;
  };
  Sums total{0.0, std::vector<double>(dim, 0.0), std::vector<double>(dim, 0.0)};
  double released = 0.0;
  ParallelInOrder<Sums>(
      count, num_threads,
      [&](size_t k) {
        const size_t u = utterances[k * stride];
        Matrix m(store.utterances()[u].num_frames, store.feat_dim());
        store.ReadFrames(u, 0, m);
        Sums sums{static_cast<double>(m.rows()), std::vector<double>(dim, 0.0), std::vector<double>(dim, 0.0)};
        for (int64_t r = 0; r < m.rows(); ++r) {
          const float* row = m.Row(r).data();
          for (size_t c = 0; c < dim; ++c) {
            sums.x[c] += row[c];
            sums.xx[c] += static_cast<double>(row[c]) * row[c];
          }
        }
        return sums;
      },
      [&](size_t, Sums&& sums) {
        total.frames += sums.frames;
        for (size_t c = 0; c < dim; ++c) {
          total.x[c] += sums.x[c];
          total.xx[c] += sums.xx[c];
        }
        if (total.frames - released > kReleaseAfterFrames) {
          store.ReleasePages();
          released = total.frames;
        }
      });
  FeatureMoments moments;
  for (size_t c = 0; c < dim; ++c) {
    const double mean = total.x[c] / total.frames;
    const double variance = std::max(total.xx[c] / total.frames - mean * mean, 1e-10);
    moments.mean.push_back(static_cast<float>(mean));
    moments.inv_stddev.push_back(static_cast<float>(1.0 / std::sqrt(variance)));
  }
  return moments;
}

}  // namespace antiphon::data
