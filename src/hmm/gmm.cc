#include "hmm/gmm.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/error.h"
#include "hmm/gmm_kernels.h"

namespace antiphon::hmm {

GmmSet::GmmSet(int num_pdfs, std::span<const float> mean, std::span<const float> variance) {
  CHECK_EQ(mean.size(), variance.size());
  const auto dim = static_cast<int64_t>(mean.size());
  means_ = Matrix(num_pdfs, dim);
  variances_ = Matrix(num_pdfs, dim);
  weights_.assign(static_cast<size_t>(num_pdfs), 1.0F);
  for (int p = 0; p < num_pdfs; ++p) {
    std::copy(mean.begin(), mean.end(), means_.Row(p).begin());
    std::copy(variance.begin(), variance.end(), variances_.Row(p).begin());
    first_.push_back(p + 1);
  }
  Prepare();
}

GmmSet::GmmSet(std::vector<int32_t> first_gaussian, std::vector<float> weights, Matrix means, Matrix variances)
    : first_(std::move(first_gaussian)),
      weights_(std::move(weights)),
      means_(std::move(means)),
      variances_(std::move(variances)) {
  const auto n = static_cast<int64_t>(weights_.size());
  if (first_.empty() || first_.front() != 0 || first_.back() != n || means_.rows() != n || variances_.rows() != n ||
      means_.cols() != variances_.cols())
    Throw<ShapeError>(
        "Gaussian mixtures with {} weights, means [{}, {}] and variances [{}, {}], {} of them in the mixtures", n,
        means_.rows(), means_.cols(), variances_.rows(), variances_.cols(), first_.empty() ? 0 : first_.back());
  for (size_t p = 0; p + 1 < first_.size(); ++p) {
    if (first_[p + 1] <= first_[p]) Throw<InputError>("pdf-id {} has no Gaussians", p);
  }
  Prepare();
}

void GmmSet::Prepare() {
  const int64_t dim = means_.cols();
  coefficients_.Resize(means_.rows(), 2 * dim);
  inverse_variances_.Resize(means_.rows(), dim);
  constants_.resize(weights_.size());
  for (int64_t g = 0; g < means_.rows(); ++g) {
    double sum = static_cast<double>(dim) * std::log(2 * std::numbers::pi);
    for (int64_t d = 0; d < dim; ++d) {
      const double variance = static_cast<double>(variances_(g, d));
      const double mean = static_cast<double>(means_(g, d));
      if (!(variance > 0) || !std::isfinite(variance) || !std::isfinite(mean))
        Throw<InputError>("Gaussian {} has mean {} and variance {} in dimension {}", g, mean, variance, d);
      sum += std::log(variance) + mean * mean / variance;
      coefficients_(g, d) = static_cast<float>(mean / variance);
      coefficients_(g, dim + d) = static_cast<float>(-0.5 / variance);
      inverse_variances_(g, d) = static_cast<float>(1 / variance);
    }
    const double weight = std::max(static_cast<double>(weights_[static_cast<size_t>(g)]), 1e-30);
    constants_[static_cast<size_t>(g)] = static_cast<float>(std::log(weight) - 0.5 * sum);
  }
}

int GmmSet::MaxGaussiansPerPdf() const {
  int most = 0;
  for (int32_t p = 0; p < num_pdfs(); ++p) most = std::max(most, NumGaussians(p));
  return most;
}

void GmmSet::GaussianLogLikelihoods(int32_t pdf_id, const float* block, float* out) const {
  const int first = FirstGaussian(pdf_id);
  GaussianBlock(coefficients_.Row(first).data(), constants_.data() + first, NumGaussians(pdf_id), 2 * dim(), block,
                out);
}

void GmmSet::LogLikelihoods(int32_t pdf_id, const float* block, float* scratch, float* out) const {
  GaussianLogLikelihoods(pdf_id, block, scratch);
  LogSumBlock(scratch, NumGaussians(pdf_id), out);
}

void GmmSet::TransformMeans(ConstMatrixView transform) {
  if (transform.rows() != dim() || transform.cols() != dim())
    Throw<ShapeError>("transform [{}, {}] for means of {} dimensions", transform.rows(), transform.cols(), dim());
  std::vector<float> moved(static_cast<size_t>(dim()));
  for (int64_t g = 0; g < means_.rows(); ++g) {
    for (int64_t i = 0; i < dim(); ++i) {
      double sum = 0;
      for (int64_t j = 0; j < dim(); ++j)
        sum += static_cast<double>(transform(i, j)) * static_cast<double>(means_(g, j));
      moved[static_cast<size_t>(i)] = static_cast<float>(sum);
    }
    std::copy(moved.begin(), moved.end(), means_.Row(g).begin());
  }
  Prepare();
}

bool GmmSet::operator==(const GmmSet& other) const {
  const auto same = [](const Matrix& a, const Matrix& b) {
    return a.rows() == b.rows() && a.cols() == b.cols() && std::equal(a.data(), a.data() + a.size(), b.data());
  };
  return first_ == other.first_ && weights_ == other.weights_ && same(means_, other.means_) &&
         same(variances_, other.variances_);
}

FrameBlocks::FrameBlocks(ConstMatrixView frames)
    : num_frames_(static_cast<int>(frames.rows())),
      dim_(static_cast<int>(frames.cols())),
      values_(num_blocks(), static_cast<int64_t>(2) * dim_ * kFrameBlock) {
  for (int t = 0; t < num_frames_; ++t) {
    float* lane = values_.Row(t / kFrameBlock).data() + t % kFrameBlock;
    const float* x = frames.Row(t).data();
    for (int d = 0; d < dim_; ++d) {
      lane[static_cast<int64_t>(d) * kFrameBlock] = x[d];
      lane[static_cast<int64_t>(d + dim_) * kFrameBlock] = x[d] * x[d];
    }
  }
}

GmmScorer::GmmScorer(const GmmSet& gmm, ConstMatrixView frames)
    : gmm_(gmm),
      blocks_(frames),
      block_of_pdf_(static_cast<size_t>(gmm.num_pdfs()), -1),
      scores_(static_cast<size_t>(gmm.num_pdfs()) * kFrameBlock),
      scratch_(static_cast<size_t>(gmm.MaxGaussiansPerPdf()) * kFrameBlock) {
  if (frames.rows() > 0 && frames.cols() != gmm.dim())
    Throw<ShapeError>("features of {} dimensions for Gaussians of {}", frames.cols(), gmm.dim());
}

float GmmScorer::LogLikelihood(int frame, int32_t pdf_id) {
  const auto pdf = static_cast<size_t>(pdf_id);
  const int block = frame / kFrameBlock;
  float* scores = scores_.data() + pdf * kFrameBlock;
  if (block_of_pdf_[pdf] != block) {
    gmm_.LogLikelihoods(pdf_id, blocks_.Block(block), scratch_.data(), scores);
    block_of_pdf_[pdf] = block;
  }
  return scores[frame % kFrameBlock];
}

GmmStreamScorer::GmmStreamScorer(const GmmSet& gmm)
    : gmm_(gmm),
      block_of_pdf_(static_cast<size_t>(gmm.num_pdfs()), -1),
      scores_(static_cast<size_t>(gmm.num_pdfs()) * kFrameBlock),
      scratch_(static_cast<size_t>(gmm.MaxGaussiansPerPdf()) * kFrameBlock) {}

void GmmStreamScorer::Accept(ConstMatrixView frames, bool ended) {
  CHECK(!ended_ || frames.rows() == 0) << "frames after the end";
  if (frames.rows() > 0 && frames.cols() != gmm_.dim())
    Throw<ShapeError>("features of {} dimensions for Gaussians of {}", frames.cols(), gmm_.dim());
  const int64_t dim = gmm_.dim();
  const auto block = [&] {
    const int64_t rows = std::ssize(waiting_) / dim;
    blocks_.emplace_back(ConstMatrixView(waiting_.data(), rows, dim));
    ready_ += static_cast<int>(rows);
    waiting_.clear();
  };
  for (int64_t r = 0; r < frames.rows(); ++r) {
    waiting_.insert(waiting_.end(), frames.Row(r).begin(), frames.Row(r).end());
    if (std::ssize(waiting_) == kFrameBlock * dim) block();
  }
  ended_ = ended;
  if (ended_ && !waiting_.empty()) block();
}

float GmmStreamScorer::LogLikelihood(int frame, int32_t pdf_id) {
  const auto pdf = static_cast<size_t>(pdf_id);
  const int block = frame / kFrameBlock;
  for (; first_block_ < block; ++first_block_) blocks_.pop_front();
  float* scores = scores_.data() + pdf * kFrameBlock;
  if (block_of_pdf_[pdf] != block) {
    CHECK_EQ(block, first_block_) << "frame " << frame << " was forgotten";
    gmm_.LogLikelihoods(pdf_id, blocks_.front().Block(0), scratch_.data(), scores);
    block_of_pdf_[pdf] = block;
  }
  return scores[frame % kFrameBlock];
}

}  // namespace antiphon::hmm
