#include "infer/nnet_scorer.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/softmax.h"
#include "math/finite.h"

namespace antiphon::infer {

NnetModel::NnetModel(nn::Model model, const NnetScorerOptions& options) : model_(std::move(model)), options_(options) {
  model_.Validate();
  num_pdfs_ = model_.num_pdfs();
  if (model_.frames_per_forward > 1 && (options.frame_skip > 1 || options.lazy)) {
    Throw<UsageError>("the network scores {} frames at a time already: neither frame-skip nor lazy goes with that",
                      model_.frames_per_forward);
  }
  network_ = std::exchange(model_.network, {});
  id_ = nn::ModelId(network_);
  const Isa isa = options.isa.empty() ? BestIsa() : ParseIsa(options.isa);
  options_.precision = PlanPrecisionName(ParsePlanPrecision(options.precision, network_, isa));
  plan_ = std::make_unique<const Plan>(network_, options_.plan());
  if (!plan_->needs_network()) network_ = {};
  if (plan_->sequential() && (options.frame_skip > 1 || options.lazy || model_.frames_per_forward > 1)) {
    throw UsageError(
        "the network goes through an utterance frame by frame: frame-skip, lazy and several heads do not go with that");
  }
  if (options.lazy) lazy_.emplace(*plan_, options.lazy_dense_share);
  const auto num_pdfs = static_cast<size_t>(num_pdfs_);
  scaled_priors_.assign(num_pdfs, 0.0F);
  if (model_.log_priors.empty()) {
    if (options.prior_scale == 0.0) return;
    throw InputError(
        "the model carries no class priors: train it with them, or set prior-scale = 0 to score with posteriors");
  }
  for (size_t s = 0; s < num_pdfs; ++s) {
    scaled_priors_[s] = static_cast<float>(options.prior_scale * model_.log_priors[s]);
    if (!WasSeen(model_.log_priors[s])) {
      scaled_priors_[s] = 0.0F;
      disabled_.push_back(static_cast<int32_t>(s));
    }
  }
}

int NnetModel::FramesToRun(int num_frames) const {
  const TimeContext& needed = plan_->time_context();
  return static_cast<int>(needed.InputFrames((num_frames + needed.stride - 1) / needed.stride));
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

// Before the end is known, frames beyond it are not.
int SequenceFeed::Waiting(const FrameWindow& window) const {
  const int num_frames = window.num_frames();
  if (num_frames == 0 || window.num_centres() == 0) return 0;
  const int there =
      window.finished() ? model_.FramesToRun(num_frames) : model_.plan().time_context().left + window.num_centres();
  return there - taken_;
}

int SequenceFeed::OutputsReady(const FrameWindow& window) const {
  return static_cast<int>(model_.plan().time_context().Outputs(taken_ + Waiting(window)));
}

int SequenceFeed::Take(FrameWindow& window, bool forget, MatrixView rows) {
  const int count = static_cast<int>(std::min<int64_t>(Waiting(window), rows.rows()));
  const int left = model_.plan().time_context().left;
  const auto frame = [&] { return std::clamp(taken_ - left, 0, window.num_frames() - 1); };
  for (int r = 0; r < count; ++r, ++taken_) window.Splice(frame(), rows.Row(r));
  if (forget && count > 0) window.ForgetBelow(frame());
  return count;
}

void SequenceFeed::Restart() {
  state_.Reset();
  taken_ = 0;
}

std::shared_ptr<const BoundProfile> NnetModel::Bind(nn::SpeakerProfile profile) const {
  nn::RequireProfileFits(profile, id_);
  if (!options_.adaptable) throw UsageError("speakers' profiles need a model that is adaptable (nnet.adaptable)");
  auto bound = std::make_shared<BoundProfile>();
  bound->profile = std::move(profile);
  for (const nn::SpeakerProfile::Part& part : bound->profile.parts) {
    const int64_t dim = part.scale.empty() ? part.matrix.cols() : part.scale.cols();
    if (part.after.empty() && dim == model_.feature_dim) {
      bound->on_features.emplace_back(part, DataType::kFloat32, options_.plan().isa);
      continue;
    }
    const auto step = plan_->StepOf(part.after);
    if (!step || *step + 1 >= plan_->num_steps() || plan_->step(*step).out_dim() != dim) {
      Throw<InputError>("the profile changes {} values behind layer '{}', which the network as it runs here has not",
                        dim, part.after);
    }
    if (bound->after_step.size() <= *step) bound->after_step.resize(*step + 1);
    BoundProfile::Change& change = bound->after_step[*step];
    const bool by_step = plan_->step(*step).takes_factors() && change.factors.empty() && change.parts.empty();
    if (by_step && !part.scale.empty() && part.offset.empty()) {
      change.factors.assign(static_cast<size_t>(PanelsOf(dim) * kPanelOutputs), 1.0F);
      std::copy_n(part.scale.data(), dim, change.factors.begin());
    } else {
      change.parts.emplace_back(part, options_.plan().precision, options_.plan().isa);
    }
  }
  return bound;
}

void AcceptFrames(ConstMatrixView frames, const BoundProfile* profile, FrameWindow& window) {
  // The window says what is wrong with rows of another length.
  if (profile == nullptr || profile->on_features.empty() || frames.rows() == 0 ||
      frames.cols() != profile->on_features.front().dim()) {
    return window.Accept(frames);
  }
  thread_local Matrix memory;
  const auto rows = static_cast<int>(frames.rows());
  const int64_t floats = (RowsBytes(rows, frames.cols()) + 63) / 64 * 64 / int64_t{sizeof(float)};
  memory.Resize(2, floats);
  Rows now = {.rows = rows, .dim = frames.cols(), .stride = frames.stride() * int64_t{sizeof(float)}};
  now.data = reinterpret_cast<std::byte*>(const_cast<float*>(frames.data()));  // is only read
  int64_t place = 0;
  for (const ProfilePart& part : profile->on_features) {
    const Rows changed =
        PlaceRows(reinterpret_cast<std::byte*>(memory.data() + place), DataType::kFloat32, rows, frames.cols());
    part.Run(now, nullptr, changed);
    now = changed;
    place = floats - place;
  }
  // Here, where one speaker alone is refused: in a batch they would stop all.
  for (int t = 0; t < rows; ++t) {
    if (AllFinite(now.Floats().Row(t))) continue;
    Throw<InputError>("frame {} of a piece is no longer finite as the profile of speaker '{}' changes it", t,
                      profile->profile.speaker);
  }
  window.Accept(now.Floats());
}

NnetScorer::NnetScorer(std::shared_ptr<const NnetModel> model, std::shared_ptr<const BoundProfile> profile)
    : model_(std::move(model)), profile_(std::move(profile)), window_(model_->NewWindow()), forgets_(true) {
  if (profile_) rows_.assign(static_cast<size_t>(model_->options().block_frames), profile_.get());
  if (model_->lazy() != nullptr) lazy_.emplace(*model_->lazy());
  if (model_->plan().sequential()) feed_.emplace(*model_);
}

NnetScorer::NnetScorer(std::shared_ptr<const NnetModel> model, Matrix frames,
                       std::shared_ptr<const BoundProfile> profile)
    : NnetScorer(std::move(model), std::move(profile)) {
  forgets_ = false;
  Accept(frames);
  Finish();
}

NnetScorer::~NnetScorer() {
  if (lazy_) model_->CountOutputs(lazy_->computed(), lazy_->total());
}

int NnetModel::EvaluationsReady(const FrameWindow& window) const {
  const int step = group();
  if (window.finished()) return (window.num_frames() + step - 1) / step;
  const int reach = window.num_centres() + model_.first_frame_offset;
  return std::max(0, (reach + step - 1) / step);
}

int NnetScorer::EvaluationsReady() const {
  return feed_ ? feed_->OutputsReady(window_) : model_->EvaluationsReady(window_);
}

int NnetScorer::num_frames_ready() const {
  return std::min(model_->SearchFrames(window_.num_frames()),
                  EvaluationsReady() * model_->group() / model_->subsampling());
}

float NnetScorer::LogLikelihood(int frame, int32_t pdf_id) {
  if (!lazy_) return DenseFrame(frame)[static_cast<size_t>(pdf_id)];
  const int row = RowOf(frame);
  if (!lazy_->Has(row, pdf_id)) lazy_->Request(row, {&pdf_id, 1});
  return model_->FinishScore(lazy_->score(row, pdf_id), pdf_id);
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
  const int first = frame * model_->subsampling();
  const int evaluation = first / model_->group();
  if (evaluation < block_begin_ || evaluation >= block_end_) Score(evaluation);
  const int head = first % model_->group() / model_->frames_per_output();
  return (evaluation - block_begin_) * model_->model().frames_per_forward + head;
}

// Goes on until the wanted output is there. Asked for one from before, it begins anew: frames of a whole utterance may
// be asked for in any order, if not quickly.
void NnetScorer::ScoreSequence(int evaluation) {
  if (evaluation < block_begin_) {
    CHECK(!forgets_) << "frame " << evaluation << " was forgotten";
    feed_->Restart();
    block_begin_ = block_end_ = 0;
  }
  const auto memory = model_->BorrowMemory();
  scores_.Resize(model_->options().block_frames, model_->num_pdfs());
  while (evaluation >= block_end_) {
    int rows[] = {feed_->Take(window_, forgets_, memory->input())};
    CHECK_GE(rows[0], 1) << "frame " << evaluation << " is not there yet";
    PlanState* const states[] = {&feed_->state()};
    model_->plan().RunStreams(rows, states, *memory, scores_, RowProfiles(rows_).first(profile_ ? 1 : 0));
    block_begin_ = block_end_;
    block_end_ += rows[0];
  }
  model_->FinishScores(scores_.view().Rows(0, block_end_ - block_begin_));
}

void NnetScorer::Score(int first_evaluation) {
  if (feed_) return ScoreSequence(first_evaluation);
  const NnetScorerOptions& options = model_->options();
  const int block = lazy_ ? std::min(options.lazy_block, options.block_frames) : options.block_frames;
  const int count = std::min(block, EvaluationsReady() - first_evaluation);
  CHECK_GE(count, 1);
  const auto memory = model_->BorrowMemory();
  for (int n = 0; n < count; ++n) {
    window_.Splice(model_->Centre(first_evaluation + n), memory->input().Row(n));
  }
  const RowProfiles profiles = RowProfiles(rows_).first(rows_.empty() ? 0 : static_cast<size_t>(count));
  if (lazy_) {
    lazy_->Begin(model_->plan().RunHidden(count, *memory, profiles));
  } else {
    const int heads = model_->model().frames_per_forward;
    scores_.Resize(int64_t{count} * heads, model_->num_pdfs());
    model_->plan().Run(count, *memory, {scores_.data(), count, int64_t{heads} * model_->num_pdfs()}, profiles);
    model_->FinishScores(scores_);
  }
  block_begin_ = first_evaluation;
  block_end_ = first_evaluation + count;
  if (forgets_) window_.ForgetBelow(model_->Centre(block_end_));
}

}  // namespace antiphon::infer
