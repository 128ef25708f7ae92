// Gaussian mixtures with diagonal covariances, one mixture per pdf-id, and their likelihoods.
//
// Shapes: Gaussians of all pdf-ids in one list, those of a pdf-id next to each other; means and variances [G, dim].
// Units: log-likelihoods in nats, without acoustic scale. Likelihoods are computed for 16 frames at a time as products
// with [x, x²]; lazily, per pdf-id and block of frames, since a search asks for few of them. Threads: const methods may
// run together; a GmmScorer belongs to one thread. Errors: ShapeError where features have another dimension than the
// model.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "base/score_source.h"
#include "math/matrix.h"

namespace antiphon::hmm {

/// Frames that are scored together.
inline constexpr int kFrameBlock = 16;

class GmmSet {
 public:
  GmmSet() = default;
  /// One Gaussian per pdf-id, all with this mean and variance.
  GmmSet(int num_pdfs, std::span<const float> mean, std::span<const float> variance);
  /// From parts; first_gaussian has num_pdfs + 1 entries, weights of a pdf-id add up to 1, variances are positive.
  GmmSet(std::vector<int32_t> first_gaussian, std::vector<float> weights, Matrix means, Matrix variances);

  int num_pdfs() const { return static_cast<int>(first_.size()) - 1; }
  int num_gaussians() const { return first_.back(); }
  int dim() const { return static_cast<int>(means_.cols()); }
  int FirstGaussian(int32_t pdf_id) const { return first_[static_cast<size_t>(pdf_id)]; }
  int NumGaussians(int32_t pdf_id) const {
    return first_[static_cast<size_t>(pdf_id) + 1] - first_[static_cast<size_t>(pdf_id)];
  }
  int MaxGaussiansPerPdf() const;

  std::span<const int32_t> first_gaussians() const { return first_; }
  std::span<const float> weights() const { return weights_; }
  const Matrix& means() const { return means_; }
  const Matrix& variances() const { return variances_; }
  const Matrix& inverse_variances() const { return inverse_variances_; }

  /// log(weight · N(x)) per Gaussian of the pdf-id, out[g · kFrameBlock + lane], for a block of FrameBlocks.
  void GaussianLogLikelihoods(int32_t pdf_id, const float* block, float* out) const;
  /// log-sum of those, out[lane]; scratch holds MaxGaussiansPerPdf() · kFrameBlock values.
  void LogLikelihoods(int32_t pdf_id, const float* block, float* scratch, float* out) const;

  /// x' = M x for all means; variances stay (they are estimated anew after the features changed).
  void TransformMeans(ConstMatrixView transform);

  bool operator==(const GmmSet& other) const;

 private:
  void Prepare();

  std::vector<int32_t> first_ = {0};
  std::vector<float> weights_;
  Matrix means_;
  Matrix variances_;
  Matrix inverse_variances_;
  Matrix coefficients_;           // [G, 2·dim]: μ/σ², −1/(2σ²)
  std::vector<float> constants_;  // log w − ½(D log 2π + Σ log σ² + Σ μ²/σ²)
};

/// Features laid out for GmmSet: per block of 16 frames [2·dim, 16], x then x²; missing frames at the end are zeros.
class FrameBlocks {
 public:
  explicit FrameBlocks(ConstMatrixView frames);
  int num_frames() const { return num_frames_; }
  int num_blocks() const { return (num_frames_ + kFrameBlock - 1) / kFrameBlock; }
  const float* Block(int index) const { return values_.data() + static_cast<int64_t>(index) * 2 * dim_ * kFrameBlock; }
  int dim() const { return dim_; }

 private:
  int num_frames_;
  int dim_;
  Matrix values_;
};

/// Scores of one utterance; keeps the last block of each pdf-id.
class GmmScorer : public ScoreSource {
 public:
  /// Copies the frames [N, dim]; `gmm` must outlive it.
  GmmScorer(const GmmSet& gmm, ConstMatrixView frames);

  int num_pdfs() const override { return gmm_.num_pdfs(); }
  int num_frames_ready() const override { return blocks_.num_frames(); }
  bool IsLastFrame(int frame) const override { return frame + 1 == blocks_.num_frames(); }
  float LogLikelihood(int frame, int32_t pdf_id) override;
  std::span<const float> DenseFrame(int) override { return {}; }

  const FrameBlocks& blocks() const { return blocks_; }

 private:
  const GmmSet& gmm_;
  FrameBlocks blocks_;
  std::vector<int32_t> block_of_pdf_;
  std::vector<float> scores_;  // [pdf][lane]
  std::vector<float> scratch_;
};

/// The same scores of an utterance whose frames come in pieces, asked for in order: blocks that are over are forgotten.
class GmmStreamScorer : public ScoreSource {
 public:
  explicit GmmStreamScorer(const GmmSet& gmm);

  /// More frames [N, dim], and whether they are the last; none after those.
  void Accept(ConstMatrixView frames, bool ended);

  int num_pdfs() const override { return gmm_.num_pdfs(); }
  /// Whole blocks, until the end.
  int num_frames_ready() const override { return ready_; }
  bool IsLastFrame(int frame) const override { return ended_ && frame + 1 == ready_; }
  float LogLikelihood(int frame, int32_t pdf_id) override;
  std::span<const float> DenseFrame(int) override { return {}; }

 private:
  const GmmSet& gmm_;
  std::vector<float> waiting_;      // frames of a block that is not whole
  std::deque<FrameBlocks> blocks_;  // one block each
  int first_block_ = 0;             // of blocks_
  int ready_ = 0;
  bool ended_ = false;
  std::vector<int32_t> block_of_pdf_;
  std::vector<float> scores_;  // [pdf][lane]
  std::vector<float> scratch_;
};

}  // namespace antiphon::hmm
