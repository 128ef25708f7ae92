#include "feat/cmvn.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace antiphon::feat {
namespace {

constexpr double kSmallestVariance = 1e-20;
// Sliding statistics would go slightly below zero by rounding.
constexpr double kSmallestWindowVariance = 1e-10;

}  // namespace

CmvnStats CmvnStats::FromMatrix(DoubleMatrix sums) {
  if (sums.rows() != 2 || sums.cols() < 2) {
    Throw<ShapeError>("normalisation statistics are {} × {}; expected 2 × (dimension + 1)", sums.rows(), sums.cols());
  }
  CmvnStats stats;
  stats.sums_ = std::move(sums);
  return stats;
}

void CmvnStats::Add(ConstMatrixView frames) {
  if (sums_.empty()) sums_ = DoubleMatrix(2, frames.cols() + 1);
  if (frames.cols() != dim()) {
    Throw<ShapeError>("features of {} columns added to normalisation statistics of {}", frames.cols(), dim());
  }
  for (int64_t t = 0; t < frames.rows(); ++t) {
    const auto row = frames.Row(t);
    for (int64_t d = 0; d < frames.cols(); ++d) {
      const double x = row[static_cast<size_t>(d)];
      sums_(0, d) += x;
      sums_(1, d) += x * x;
    }
  }
  sums_(0, dim()) += static_cast<double>(frames.rows());
}

void CmvnStats::Add(const CmvnStats& other) {
  if (other.sums_.empty()) return;
  if (sums_.empty()) sums_ = DoubleMatrix(2, other.sums_.cols());
  if (other.dim() != dim()) Throw<ShapeError>("normalisation statistics of {} columns added to {}", other.dim(), dim());
  for (int64_t i = 0; i < sums_.size(); ++i) sums_.data()[i] += other.sums_.data()[i];
}

double CmvnStats::Mean(int column) const { return sums_(0, column) / count(); }

double CmvnStats::Variance(int column) const {
  const double mean = Mean(column);
  return std::max(kSmallestVariance, sums_(1, column) / count() - mean * mean);
}

void CmvnStats::Apply(MatrixView frames, bool normalize_variance) const {
  if (frames.cols() != dim()) {
    Throw<ShapeError>("features of {} columns do not fit normalisation statistics of {}", frames.cols(), dim());
  }
  if (count() < 1.0) Throw<InputError>("normalisation statistics of no frames cannot be applied");
  std::vector<float> offset, scale;
  for (int d = 0; d < dim(); ++d) {
    const double factor = normalize_variance ? 1.0 / std::sqrt(Variance(d)) : 1.0;
    scale.push_back(static_cast<float>(factor));
    offset.push_back(static_cast<float>(-Mean(d) * factor));
  }
  for (int64_t t = 0; t < frames.rows(); ++t) {
    float* row = frames.Row(t).data();
    for (size_t d = 0; d < scale.size(); ++d) row[d] = row[d] * scale[d] + offset[d];
  }
}

void NormalizeUtterance(MatrixView frames, bool normalize_variance) {
  if (frames.rows() == 0) return;
  CmvnStats stats(static_cast<int>(frames.cols()));
  stats.Add(frames);
  stats.Apply(frames, normalize_variance);
}

namespace {

// One frame by the sums of n frames about it.
void NormalizeByWindow(const float* in, const std::vector<double>& sum, const std::vector<double>& square, double n,
                       bool normalize_variance, float* out) {
  for (size_t d = 0; d < sum.size(); ++d) {
    const double mean = sum[d] / n;
    double value = in[d] - mean;
    if (normalize_variance) {
      value = n == 1 ? 0.0 : value / std::sqrt(std::max(kSmallestWindowVariance, square[d] / n - mean * mean));
    }
    out[d] = static_cast<float>(value);
  }
}

}  // namespace

Matrix SlidingCmvn(ConstMatrixView frames, const SlidingCmvnOptions& options) {
  const int64_t num_frames = frames.rows(), dim = frames.cols();
  Matrix out;
  out.Resize(num_frames, dim);
  std::vector<double> sum(static_cast<size_t>(dim)), square(static_cast<size_t>(dim));
  const auto add = [&](int64_t t, double sign) {
    const float* row = frames.Row(t).data();
    for (size_t d = 0; d < sum.size(); ++d) {
      sum[d] += sign * row[d];
      square[d] += sign * row[d] * row[d];
    }
  };
  int64_t begin = 0, end = 0;  // of the window whose sums are held
  for (int64_t t = 0; t < num_frames; ++t) {
    int64_t from = options.center ? t - options.window / 2 : t - options.window;
    int64_t to = options.center ? from + options.window : t + 1;
    if (from < 0) {
      to -= from;
      from = 0;
    }
    if (!options.center) to = std::max<int64_t>(t + 1, options.min_window);
    if (to > num_frames) {
      from = std::max<int64_t>(0, from - (to - num_frames));
      to = num_frames;
    }
    for (; end < to; ++end) add(end, 1.0);
    for (; end > to; --end) add(end - 1, -1.0);
    for (; begin < from; ++begin) add(begin, -1.0);
    for (; begin > from; --begin) add(begin - 1, 1.0);
    const auto n = static_cast<double>(to - from);
    const float* in = frames.Row(t).data();
    float* row = out.Row(t).data();
    NormalizeByWindow(in, sum, square, n, options.normalize_variance, row);
  }
  return out;
}

SlidingCmvnStream::SlidingCmvnStream(int dim, const SlidingCmvnOptions& options, SpeakerMean speaker)
    : options_(options),
      speaker_(std::move(speaker)),
      dim_(dim),
      sum_(static_cast<size_t>(dim)),
      square_(static_cast<size_t>(dim)) {
  if (options.center) throw UsageError("normalisation of live speech cannot be centred: its window would wait");
  CHECK(speaker_.frames == 0 || speaker_.sum.size() == sum_.size()) << speaker_.sum.size();
  CHECK(speaker_.frames == 0 || speaker_.square.size() == square_.size()) << speaker_.square.size();
}

void SlidingCmvnStream::Accept(ConstMatrixView frames) {
  if (frames.rows() > 0 && frames.cols() != dim_) {
    Throw<ShapeError>("features of {} columns where normalisation expects {}", frames.cols(), dim_);
  }
  for (int64_t r = 0; r < frames.rows(); ++r) frames_.insert(frames_.end(), frames.Row(r).begin(), frames.Row(r).end());
  num_frames_ += frames.rows();
}

void SlidingCmvnStream::Add(int64_t frame, double sign) {
  const float* row = frames_.data() + (frame - first_) * dim_;
  for (size_t d = 0; d < sum_.size(); ++d) {
    sum_[d] += sign * row[d];
    square_[d] += sign * row[d] * row[d];
  }
}

void SlidingCmvnStream::SumWithSpeaker(SpeakerMean& all) const {
  all.frames = static_cast<double>(end_ - begin_);
  all.sum = sum_;
  all.square = square_;
  FillUp(speaker_, static_cast<double>(options_.window) - all.frames, all);
}

SpeakerMean SlidingCmvnStream::speaker() const {
  SpeakerMean all;
  SumWithSpeaker(all);
  return all.frames > 0 ? all : SpeakerMean();
}

Matrix SlidingCmvnStream::Take() {
  const auto known = static_cast<int64_t>(std::min(speaker_.frames, static_cast<double>(options_.min_window)));
  const auto wanted = [&](int64_t t) { return std::max(t + 1, options_.min_window - known); };
  int64_t ready = next_;
  while (ready < num_frames_ && (finished_ || wanted(ready) <= num_frames_)) ++ready;
  Matrix out(ready - next_, dim_);
  for (int64_t r = 0; r < out.rows(); ++r, ++next_) {
    const int64_t from = std::max<int64_t>(0, next_ - options_.window);
    for (const int64_t to = std::min(wanted(next_), num_frames_); end_ < to; ++end_) Add(end_, 1.0);
    for (; begin_ < from; ++begin_) Add(begin_, -1.0);
    SumWithSpeaker(with_speaker_);
    NormalizeByWindow(frames_.data() + (next_ - first_) * dim_, with_speaker_.sum, with_speaker_.square,
                      with_speaker_.frames, options_.normalize_variance, out.Row(r).data());
  }
  // What stays is moved no more often than it has come.
  if (const int64_t forgotten = begin_ - first_; 2 * forgotten * dim_ >= std::ssize(frames_)) {
    frames_.erase(frames_.begin(), frames_.begin() + forgotten * dim_);
    first_ = begin_;
  }
  return out;
}

}  // namespace antiphon::feat
