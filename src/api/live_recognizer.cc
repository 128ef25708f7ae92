#include "api/live_recognizer.h"

#include <algorithm>
#include <utility>

#include "base/config.h"
#include "base/error.h"

namespace antiphon {
namespace {

feat::FrontEnd FrontEndOf(const AcousticModel& model) {
  if (model.network() == nullptr) throw UsageError("live recognition needs a network; this model is a GMM");
  if (model.features().empty()) throw InputError("the model does not say what its features are");
  return feat::FrontEnd(ReadOptions<feat::FrontEndOptions>(Config::Parse(model.features(), "the model's features")));
}

std::vector<decode::EndpointRule> Rules(const LiveOptions& options) {
  auto rules = decode::DefaultEndpointRules();
  rules[1].min_trailing_silence_s = options.silence_s;
  rules.back().min_length_s = options.max_utterance_s;
  return rules;
}

}  // namespace

LiveRecognizer::LiveRecognizer(const AcousticModel& model, const decode::Graph& graph,
                               const decode::RecognizeOptions& recognize, const decode::LatticeWeights& weights,
                               const LiveOptions& options, Callback callback,
                               std::shared_ptr<const infer::BoundProfile> profile)
    : model_(model),
      profile_(std::move(profile)),
      options_(options),
      weights_(weights),
      rules_(Rules(options)),
      callback_(std::move(callback)),
      front_end_(FrontEndOf(model)),
      bias_(decode::MakeBias(graph, recognize.bias)),
      head_start_(bias_ ? bias_->LargestBonus() : 0.0),
      recognizer_(graph, model.hmm(), recognize, nullptr, bias_.get()) {
  BeginAudio();
}

void LiveRecognizer::BeginAudio() {
  frames_ = std::make_unique<feat::FrontEndStream>(front_end_);
  cmvn_ = std::make_unique<feat::SlidingCmvnStream>(front_end_.dim(), options_.cmvn);
  pending_.clear();
  base_.clear();
  base_first_ = transformed_ = 0;
  begin_frame_ = 0;
  zeros_ = 0;
  heard_ = false;
  BeginUtterance();
}

void LiveRecognizer::BeginUtterance() {
  recognizer_.Start();
  scorer_ = std::make_unique<infer::NnetScorer>(model_.network(), profile_);
  const int dim = model_.network()->model().feature_dim;
  scorer_->Accept(ConstMatrixView(pending_.data(), std::ssize(pending_) / dim, dim));
}

void LiveRecognizer::Accept(std::span<const float> samples) {
  frames_->Accept(samples);
  check_.Accept(samples);
  if (!heard_) {
    const auto sound = std::find_if(samples.begin(), samples.end(), [](float x) { return x != 0; });
    zeros_ += sound - samples.begin();
    heard_ = sound != samples.end();
  }
  TakeFeatures(false);
  Search(false);
}

void LiveRecognizer::Finish() {
  frames_->Finish();
  cmvn_->Accept(frames_->Take());
  cmvn_->Finish();
  TakeFeatures(true);
  Search(false);
  scorer_->Finish();
  Search(true);
  BeginAudio();
}

void LiveRecognizer::TakeFeatures(bool ended) {
  if (!ended) cmvn_->Accept(frames_->Take());
  Matrix frames = cmvn_->Take();
  if (model_.transform() != nullptr) frames = Transform(frames, ended);
  if (frames.rows() == 0) return;
  scorer_->Accept(frames);
  pending_.insert(pending_.end(), frames.data(), frames.data() + frames.size());
}

Matrix LiveRecognizer::Transform(const Matrix& normalized, bool ended) {
  const hmm::FeatureTransform& transform = *model_.transform();
  const int64_t dim = transform.in_dim();
  base_.insert(base_.end(), normalized.data(), normalized.data() + normalized.size());
  const int64_t known = base_first_ + std::ssize(base_) / dim;
  const int64_t ready = ended ? known : std::max<int64_t>(known - transform.right(), transformed_);
  if (ready == transformed_) return {};
  // With their context to both sides; what the first and last frame lack, Apply repeats.
  const ConstMatrixView base(base_.data(), known - base_first_, dim);
  const Matrix all = transform.Apply(base);
  Matrix out(all.view().Rows(transformed_ - base_first_, ready - transformed_));
  transformed_ = ready;
  const int64_t forgotten = std::max<int64_t>(ready - transform.left() - base_first_, 0);
  base_.erase(base_.begin(), base_.begin() + forgotten * dim);
  base_first_ += forgotten;
  return out;
}

void LiveRecognizer::Search(bool ended) {
  for (;;) {
    const int before = recognizer_.decoder().num_frames();
    const int waiting = std::min(scorer_->num_frames_ready() - before, options_.step_frames);
    if (waiting < (ended ? 1 : options_.step_frames)) break;
    try {
      recognizer_.Advance(*scorer_, waiting);
    } catch (const ShapeError&) {
      throw;
    } catch (const InputError& e) {
      // Nothing goes on from here (a grammar that is at its end): speech that follows is another utterance.
      LiveResult lost{
          .final = true, .begin_frame = begin_frame_, .num_frames = before + waiting, .partial = {}, .recognition = {}};
      lost.recognition.remark = e.what();
      callback_(lost);
      Forget(waiting);
      NextUtterance(before + waiting);
      if (ended) scorer_->Finish();
      continue;
    }
    Forget(waiting);
    const auto state = decode::ObserveEndpoint(recognizer_.decoder(), model_.hmm(), head_start_);
    const bool over = decode::IsEndpoint(state, rules_, frame_shift_s());
    Report(over);
    if (!over) continue;
    NextUtterance(before + waiting);
    if (ended) scorer_->Finish();
  }
  if (ended && recognizer_.decoder().num_frames() > 0) Report(true);
}

void LiveRecognizer::Forget(int frames) {
  pending_.erase(pending_.begin(), pending_.begin() + int64_t{frames} * model_.network()->model().feature_dim);
}

void LiveRecognizer::NextUtterance(int frames_of_this) {
  begin_frame_ += frames_of_this;
  BeginUtterance();
}

bool LiveRecognizer::AllZero(int frames) const {
  return !heard_ || static_cast<double>(zeros_) >= frames * frame_shift_s() * sample_rate_hz();
}

void LiveRecognizer::Report(bool final) {
  LiveResult result;
  result.final = final;
  result.begin_frame = begin_frame_;
  result.num_frames = recognizer_.decoder().num_frames();
  if (AllZero(begin_frame_ + result.num_frames)) {
    if (final) result.recognition.remark = "all samples are 0: no words were looked for";
  } else if (final) {
    result.recognition = recognizer_.Finish(weights_);
  } else {
    result.partial = recognizer_.decoder().BestPath();
  }
  callback_(result);
}

}  // namespace antiphon
