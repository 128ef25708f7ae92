#include "hmm/tree_stats.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace antiphon::hmm {
namespace {

constexpr double kVarianceFloor = 0.01;

}  // namespace

void GaussianStats::Accumulate(std::span<const float> frame) {
  if (sums_.empty()) sums_.assign(2 * frame.size(), 0.0);
  CHECK_EQ(sums_.size(), 2 * frame.size());
  count_ += 1;
  for (size_t d = 0; d < frame.size(); ++d) {
    const double x = frame[d];
    sums_[d] += x;
    sums_[frame.size() + d] += x * x;
  }
}

void GaussianStats::Add(const GaussianStats& other) {
  if (other.sums_.empty()) return;
  if (sums_.empty()) sums_.assign(other.sums_.size(), 0.0);
  CHECK_EQ(sums_.size(), other.sums_.size());
  count_ += other.count_;
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += other.sums_[i];
}

void GaussianStats::Subtract(const GaussianStats& other) {
  if (other.sums_.empty()) return;
  CHECK_EQ(sums_.size(), other.sums_.size());
  count_ -= other.count_;
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] -= other.sums_[i];
}

double GaussianStats::LogLikelihood() const {
  if (count_ <= 0) return 0;
  const size_t dim = sums_.size() / 2;
  double total = static_cast<double>(dim) * std::log(2 * std::numbers::pi);
  for (size_t d = 0; d < dim; ++d) {
    const double mean = sums_[d] / count_;
    const double variance = std::max(sums_[dim + d] / count_ - mean * mean, 0.0);
    const double floored = std::max(variance, kVarianceFloor);
    total += std::log(floored) + variance / floored;
  }
  return -0.5 * count_ * total;
}

void AddTreeStats(TreeStats& total, const TreeStats& part) {
  for (const auto& [context, stats] : part) total[context].Add(stats);
}

void AccumulateTreeStats(const HmmModel& model, std::span<const int32_t> alignment, ConstMatrixView frames,
                         TreeStats& stats) {
  CHECK_EQ(static_cast<int64_t>(alignment.size()), frames.rows());
  const std::vector<PhoneSegment> segments = model.SplitToPhones(alignment);
  for (size_t s = 0; s < segments.size(); ++s) {
    const PhoneSegment& segment = segments[s];
    const int32_t left = s > 0 ? segments[s - 1].phone : 0;
    const int32_t right = s + 1 < segments.size() ? segments[s + 1].phone : 0;
    const TopologyEntry& entry = model.topology().Entry(segment.phone);
    GaussianStats* target = nullptr;
    int last_class = -1;
    for (int t = segment.begin_frame; t < segment.begin_frame + segment.num_frames; ++t) {
      const int32_t id = alignment[static_cast<size_t>(t)];
      const TopologyState& state = entry[static_cast<size_t>(model.transitions().HmmState(id))];
      const int pdf_class = model.transitions().IsSelfLoop(id) ? state.LoopClass() : state.pdf_class;
      if (pdf_class != last_class) {
        const TreeContext context{{left, segment.phone, right}, pdf_class};
        target = &stats.try_emplace(context, frames.cols()).first->second;
        last_class = pdf_class;
      }
      target->Accumulate(frames.Row(t));
    }
  }
}

}  // namespace antiphon::hmm
