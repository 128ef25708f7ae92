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
  if (options.lazy) lazy_.emplace(*plan_, options.lazy_dense_share);
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

void NnetModel::Splice(ConstMatrixView frames, int first, std::span<const int> centres, MatrixView out) const {
  for (size_t n = 0; n < centres.size(); ++n) {
    float* to = out.Row(static_cast<int64_t>(n)).data();
    for (int64_t t = centres[n] - model_.left_context; t <= centres[n] + model_.right_context; ++t) {
      const auto from = frames.Row(std::clamp<int64_t>(t - first, 0, frames.rows() - 1));
      to = std::copy(from.begin(), from.end(), to);
    }
  }
}

void NnetModel::FinishScores(MatrixView logits) const {
  if (options_.log_softmax) Softmax(true, logits, logits);
  for (int64_t n = 0; n < logits.rows(); ++n) {
    const auto row = logits.Row(n);
    for (size_t s = 0; s < scaled_priors_.size(); ++s) row[s] -= scaled_priors_[s];
    for (const int32_t s : disabled_) row[static_cast<size_t>(s)] = kDisabledScore;
  }
}

float NnetModel::FinishScore(float logit, int32_t pdf_id) const {
  if (std::binary_search(disabled_.begin(), disabled_.end(), pdf_id)) return kDisabledScore;
  return logit - scaled_priors_[static_cast<size_t>(pdf_id)];
}

double NnetModel::computed_share() const {
  return total_ > 0 ? static_cast<double>(computed_) / static_cast<double>(total_) : 1.0;
}

void NnetModel::CountOutputs(int64_t computed, int64_t total) const {
  computed_ += computed;
  total_ += total;
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

NnetScorer::NnetScorer(std::shared_ptr<const NnetModel> model) : model_(std::move(model)), forgets_(true) {
  if (model_->lazy() != nullptr) lazy_.emplace(*model_->lazy());
}

NnetScorer::NnetScorer(std::shared_ptr<const NnetModel> model, Matrix frames) : NnetScorer(std::move(model)) {
  forgets_ = false;
  Accept(frames);
  Finish();
}

NnetScorer::~NnetScorer() {
  if (lazy_) model_->CountOutputs(lazy_->computed(), lazy_->total());
}

void NnetScorer::Accept(ConstMatrixView frames) {
  CHECK(!finished_) << "frames after the end";
  if (frames.rows() > 0 && frames.cols() != model_->model().feature_dim) {
    Throw<ShapeError>(
        "the model takes {} values per frame, the features have {}; compute them with the model's settings",
        model_->model().feature_dim, frames.cols());
  }
  for (int64_t r = 0; r < frames.rows(); ++r) frames_.insert(frames_.end(), frames.Row(r).begin(), frames.Row(r).end());
  num_frames_ += static_cast<int>(frames.rows());
}

int NnetScorer::EvaluationsReady() const {
  const int skip = model_->options().frame_skip;
  const int centres = finished_ ? num_frames_ : std::max(0, num_frames_ - model_->model().right_context);
  return (centres + skip - 1) / skip;
}

int NnetScorer::num_frames_ready() const {
  return std::min(num_frames_, EvaluationsReady() * model_->options().frame_skip);
}

float NnetScorer::LogLikelihood(int frame, int32_t pdf_id) {
  if (!lazy_) return DenseFrame(frame)[static_cast<size_t>(pdf_id)];
  const int row = RowOf(frame);
  if (!lazy_->Has(row, pdf_id)) lazy_->Request(row, {&pdf_id, 1});
  return model_->FinishScore(lazy_->scores()(row, pdf_id), pdf_id);
}

std::span<const float> NnetScorer::DenseFrame(int frame) {
  if (lazy_) return {};
  const int row = RowOf(frame);
  return std::as_const(scores_).Row(row);
}

void NnetScorer::Request(int frame, std::span<const int32_t> pdf_ids) {
  if (!lazy_) return;
  const int row = RowOf(frame);
  lazy_->Request(row, pdf_ids);
}

int NnetScorer::RowOf(int frame) {
  const int evaluation = frame / model_->options().frame_skip;
  if (evaluation < block_begin_ || evaluation >= block_end_) Score(evaluation);
  return evaluation - block_begin_;
}

void NnetScorer::Score(int first_evaluation) {
  const NnetScorerOptions& options = model_->options();
  const int block = lazy_ ? std::min(options.lazy_block, options.block_frames) : options.block_frames;
  const int count = std::min(block, EvaluationsReady() - first_evaluation);
  CHECK_GE(count, 1);
  centres_.clear();
  for (int e = first_evaluation; e < first_evaluation + count; ++e) centres_.push_back(e * options.frame_skip);
  const auto memory = model_->BorrowMemory();
  const ConstMatrixView frames(frames_.data(), num_frames_ - first_frame_, model_->model().feature_dim);
  model_->Splice(frames, first_frame_, centres_, memory->input());
  if (lazy_) {
    lazy_->Begin(model_->plan().RunHidden(count, *memory));
  } else {
    scores_.Resize(count, model_->num_pdfs());
    model_->plan().Run(count, *memory, scores_);
    model_->FinishScores(scores_);
  }
  block_begin_ = first_evaluation;
  block_end_ = first_evaluation + count;
  if (forgets_) ForgetFrames(block_end_ * options.frame_skip - model_->model().left_context);
}

void NnetScorer::ForgetFrames(int before) {
  // The last frame stands for those beyond the end.
  const int count = std::min(before, num_frames_ - 1) - first_frame_;
  if (count <= 0) return;
  frames_.erase(frames_.begin(), frames_.begin() + int64_t{count} * model_->model().feature_dim);
  first_frame_ += count;
}

}  // namespace antiphon::infer
