#include "infer/nnet_scorer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/softmax.h"

namespace antiphon::infer {

NnetModel::NnetModel(nn::Model model, const NnetScorerOptions& options) : model_(std::move(model)), options_(options) {
  model_.Validate();
  num_pdfs_ = model_.network.out_dim();
  network_ = std::exchange(model_.network, {});
  plan_ = std::make_unique<const Plan>(network_, options.plan());
  if (!plan_->needs_network()) network_ = {};
  const auto num_pdfs = static_cast<size_t>(num_pdfs_);
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

void NnetModel::Splice(ConstMatrixView frames, std::span<const int> centres, MatrixView out) const {
  for (size_t n = 0; n < centres.size(); ++n) {
    float* to = out.Row(static_cast<int64_t>(n)).data();
    for (int64_t t = centres[n] - model_.left_context; t <= centres[n] + model_.right_context; ++t) {
      const auto from = frames.Row(std::clamp<int64_t>(t, 0, frames.rows() - 1));
      to = std::copy(from.begin(), from.end(), to);
    }
  }
}

void NnetModel::FinishScores(MatrixView logits) const {
  Softmax(true, logits, logits);
  for (int64_t n = 0; n < logits.rows(); ++n) {
    const auto row = logits.Row(n);
    for (size_t s = 0; s < scaled_priors_.size(); ++s) row[s] -= scaled_priors_[s];
    for (const int32_t s : disabled_) row[static_cast<size_t>(s)] = kDisabledScore;
  }
}

NnetModel::BorrowedMemory NnetModel::BorrowMemory() const {
  std::unique_ptr<PlanMemory> memory;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      memory = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (memory == nullptr) memory = std::make_unique<PlanMemory>(*plan_, options_.block_frames);
  return {memory.release(), [this](PlanMemory* returned) {
            const std::lock_guard lock(mutex_);
            spare_.emplace_back(returned);
          }};
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
  const int evaluation = frame / model_->options().frame_skip;
  if (evaluation < block_begin_ || evaluation >= block_end_) Score(evaluation);
  return std::as_const(scores_).Row(evaluation - block_begin_);
}

void NnetScorer::Score(int first) {
  const int skip = model_->options().frame_skip;
  const int evaluations = (num_frames_ready() + skip - 1) / skip;
  const int count = std::min(model_->options().block_frames, evaluations - first);
  centres_.clear();
  for (int e = first; e < first + count; ++e) centres_.push_back(e * skip);
  const auto memory = model_->BorrowMemory();
  model_->Splice(frames_, centres_, memory->input());
  scores_.Resize(count, model_->num_pdfs());
  model_->plan().Run(count, *memory, scores_);
  model_->FinishScores(scores_);
  block_begin_ = first;
  block_end_ = first + count;
}

}  // namespace antiphon::infer
