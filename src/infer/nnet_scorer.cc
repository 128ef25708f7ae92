#include "infer/nnet_scorer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/softmax.h"

namespace antiphon::infer {
namespace {

// Row n of `out` holds the frames around first + n, edge frames repeated.
void SpliceBlock(ConstMatrixView frames, int first, int left, int right, MatrixView out) {
  const int64_t dim = frames.cols();
  for (int64_t n = 0; n < out.rows(); ++n) {
    float* to = out.Row(n).data();
    for (int64_t t = first + n - left; t <= first + n + right; ++t, to += dim) {
      const auto from = frames.Row(std::clamp<int64_t>(t, 0, frames.rows() - 1));
      std::copy(from.begin(), from.end(), to);
    }
  }
}

}  // namespace

NnetModel::NnetModel(nn::Model model, const NnetScorerOptions& options) : model_(std::move(model)), options_(options) {
  model_.Validate();
  const auto num_pdfs = static_cast<size_t>(model_.network.out_dim());
  scaled_priors_.assign(num_pdfs, 0.0F);
  if (model_.log_priors.empty()) {
    if (options.prior_scale == 0.0) return;
    throw InputError(
        "the model carries no class priors: train it with them, or set prior-scale = 0 to score with posteriors");
  }
  const double least = std::log(1e-10);
  for (size_t s = 0; s < num_pdfs; ++s) {
    scaled_priors_[s] = static_cast<float>(options.prior_scale * model_.log_priors[s]);
    if (!(model_.log_priors[s] >= least)) {
      scaled_priors_[s] = 0.0F;
      disabled_.push_back(static_cast<int32_t>(s));
    }
  }
}

NnetScorer::NnetScorer(std::shared_ptr<const NnetModel> model, Matrix frames)
    : model_(std::move(model)), frames_(std::move(frames)) {
  if (frames_.rows() > 0 && frames_.cols() != model_->model().feature_dim) {
    Throw<ShapeError>(
        "the model takes {} values per frame, the features have {}; compute them with the model's settings",
        model_->model().feature_dim, frames_.cols());
  }
}

float NnetScorer::LogLikelihood(int frame, int32_t pdf_id) { return DenseFrame(frame)[static_cast<size_t>(pdf_id)]; }

std::span<const float> NnetScorer::DenseFrame(int frame) {
  if (frame < block_begin_ || frame >= block_end_) Score(frame);
  return scores_.Row(frame - block_begin_);
}

void NnetScorer::Score(int first_frame) {
  const nn::Model& model = model_->model();
  const int count = std::min(model_->options().block_frames, num_frames_ready() - first_frame);
  spliced_.Resize(count, int64_t{model.feature_dim} * (model.left_context + 1 + model.right_context));
  SpliceBlock(frames_, first_frame, model.left_context, model.right_context, spliced_);
  nn::ExecContext context;
  context.precision = ParsePrecision(model_->options().precision);
  const MatrixView logits = model.network.Forward(context, spliced_, workspace_);
  scores_.Resize(count, logits.cols());
  Softmax(true, logits, scores_);
  const auto priors = model_->scaled_priors();
  for (int n = 0; n < count; ++n) {
    const auto row = scores_.Row(n);
    for (size_t s = 0; s < priors.size(); ++s) row[s] -= priors[s];
    for (const int32_t s : model_->disabled()) row[static_cast<size_t>(s)] = kDisabledScore;
  }
  block_begin_ = first_frame;
  block_end_ = first_frame + count;
}

}  // namespace antiphon::infer
