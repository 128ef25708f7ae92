#include "hmm/online_ivector.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace antiphon::hmm {

OnlineIvectors::OnlineIvectors(std::shared_ptr<const IvectorExtractor> extractor, OnlineIvectorState speaker)
    : extractor_(std::move(extractor)), transform_(extractor_->transform()), state_(std::move(speaker)) {
  const auto dim = static_cast<size_t>(extractor_->dim());
  if (state_.linear.empty() && state_.quadratic.empty()) {
    state_ = {0, std::vector<double>(dim), std::vector<double>(dim * (dim + 1) / 2)};
  }
  if (state_.linear.size() != dim || state_.quadratic.size() != dim * (dim + 1) / 2) {
    Throw<ShapeError>("what is known of the speaker has {} numbers, but vectors of this extractor have {}",
                      state_.linear.size(), dim);
  }
  const IvectorOptions& options = extractor_->options();
  const double most = options.memory_frames * options.posterior_scale;
  if (state_.count <= most) return;
  const double factor = most / state_.count;
  for (double& v : state_.linear) v *= factor;
  for (double& v : state_.quadratic) v *= factor;
  state_.count = most;
}

std::vector<float> OnlineIvectors::Vector() const {
  const IvectorOptions& options = extractor_->options();
  const double prior = options.max_count > 0 ? std::max(1.0, state_.count / options.max_count) : 1.0;
  std::vector<float> vector;
  for (const double v : extractor_->Solve(prior, state_.quadratic, state_.linear)) {
    vector.push_back(static_cast<float>(options.vector_scale * v));
  }
  return vector;
}

void OnlineIvectors::Add(ConstMatrixView transformed) {
  const double scale = extractor_->options().posterior_scale;
  extractor_->Shares(transformed, [&](int64_t t, std::span<const GaussianShare> shares) {
    for (const auto& [gaussian, posterior] : shares) {
      const double weight = scale * posterior;
      state_.count += weight;
      extractor_->AddProjected(gaussian, weight, transformed.Row(t), state_.linear);
      const std::span<const double> precision = extractor_->Precision(gaussian);
      for (size_t i = 0; i < precision.size(); ++i) state_.quadratic[i] += weight * precision[i];
    }
    if (num_seen_++ % extractor_->options().period != 0) return;
    const std::vector<float> vector = Vector();
    vectors_.insert(vectors_.end(), vector.begin(), vector.end());
  });
}

Matrix OnlineIvectors::Accept(ConstMatrixView frames, bool ended) {
  const int64_t dim = extractor_->feature_dim(), numbers = extractor_->dim();
  if (frames.rows() > 0 && frames.cols() != dim) {
    Throw<ShapeError>("the i-vector extractor is for {} features per frame, found {}", dim, frames.cols());
  }
  for (int64_t r = 0; r < frames.rows(); ++r) {
    waiting_.insert(waiting_.end(), frames.Row(r).begin(), frames.Row(r).end());
  }
  Add(transform_.Accept(frames, ended));
  const int64_t period = extractor_->options().period;
  const int64_t periods = first_period_ + std::ssize(vectors_) / numbers;
  const int64_t held = std::ssize(waiting_) / dim;
  const int64_t ready = std::clamp<int64_t>(periods * period - num_out_, 0, held);
  Matrix out(ready, dim + numbers);
  for (int64_t r = 0; r < ready; ++r) {
    const int64_t of_period = (num_out_ + r) / period - first_period_;
    float* const row = std::copy_n(waiting_.data() + r * dim, dim, out.Row(r).data());
    std::copy_n(vectors_.data() + of_period * numbers, numbers, row);
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + ready * dim);
  num_out_ += ready;
  const int64_t over = std::min(num_out_ / period, periods) - first_period_;
  vectors_.erase(vectors_.begin(), vectors_.begin() + over * numbers);
  first_period_ += over;
  return out;
}

}  // namespace antiphon::hmm
