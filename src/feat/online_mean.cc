#include "feat/online_mean.h"

#include <algorithm>

#include "base/check.h"

namespace antiphon::feat {

OnlineMean::OnlineMean(const OnlineMeanOptions& options, const SpeakerMean& speaker)
    : options_(options), speaker_(speaker), sum_(options.prior.size(), 0.0) {
  CHECK_GT(options_.window, 0);
  CHECK(speaker_.sum.empty() || speaker_.sum.size() == sum_.size()) << speaker_.sum.size();
}

void OnlineMean::TakeOut(MatrixView frames) {
  const size_t dim = sum_.size();
  CHECK_EQ(frames.cols(), static_cast<int64_t>(dim));
  const int64_t window = options_.window;
  for (int64_t r = 0; r < frames.rows(); ++r, ++num_frames_) {
    const auto row = frames.Row(r);
    const auto slot = static_cast<size_t>(num_frames_ % window) * dim;
    if (num_frames_ < window) {
      ring_.insert(ring_.end(), row.begin(), row.end());
    } else {
      for (size_t d = 0; d < dim; ++d) sum_[d] -= static_cast<double>(ring_[slot + d]);
      std::ranges::copy(row, ring_.begin() + static_cast<std::ptrdiff_t>(slot));
    }
    const auto here = static_cast<double>(std::min(window, num_frames_ + 1));
    const double free = static_cast<double>(window) - here;
    const double of_speaker = std::min(speaker_.frames, free);
    const double of_prior = std::min(static_cast<double>(options_.prior_frames), free - of_speaker);
    const double scale = 1.0 / (here + of_speaker + of_prior);
    for (size_t d = 0; d < dim; ++d) {
      sum_[d] += static_cast<double>(row[d]);
      double sum = sum_[d] + of_prior * options_.prior[d];
      if (of_speaker > 0) sum += of_speaker / speaker_.frames * speaker_.sum[d];
      row[d] = static_cast<float>(static_cast<double>(row[d]) - scale * sum);
    }
  }
}

SpeakerMean OnlineMean::speaker() const {
  const auto here = static_cast<double>(std::min<int64_t>(options_.window, num_frames_));
  SpeakerMean mean{.frames = here, .sum = sum_};
  FillUp(speaker_, static_cast<double>(options_.window) - here, mean);
  if (mean.frames == 0) mean.sum.clear();
  return mean;
}

}  // namespace antiphon::feat
