#include "api/live_recognizer.h"

#include <algorithm>
#include <utility>

#include "base/config.h"
#include "base/error.h"
#include "decode/search/scores_from.h"

namespace antiphon {
namespace {

feat::FrontEnd FrontEndOf(const AcousticModel& model) {
  if (model.network() == nullptr) throw UsageError("live recognition needs a network; this model is a GMM");
  if (model.features().empty()) throw InputError("the model does not say what its features are");
  const auto options = ReadOptions<feat::FrontEndOptions>(Config::Parse(model.features(), "the model's features"));
  if (options.pitch_dim > 0) {
    Throw<UsageError>(
        "the model's features have pitch (pitch-dim = {}), which is known at the end of an utterance only, so that "
        "live recognition would wait for ever: use antiphon decode, or a model without pitch",
        options.pitch_dim);
  }
  return feat::FrontEnd(options);
}

std::vector<decode::EndpointRule> Rules(const LiveOptions& options) {
  auto rules = decode::EndpointRulesFor(options.silence_s);
  rules.back().min_length_s = options.max_utterance_s;
  return rules;
}

}  // namespace

LiveRecognizer::LiveRecognizer(const AcousticModel& model, const decode::Graph& graph,
                               const decode::RecognizeOptions& recognize, const decode::LatticeWeights& weights,
                               const LiveOptions& options, Callback callback,
                               std::shared_ptr<const infer::BoundProfile> profile, RememberedSpeaker* memory,
                               const decode::LmRescorer* rescorer, const decode::WordBias* bias,
                               const pipeline::VoiceActivity* activity)
    : model_(model),
      profile_(std::move(profile)),
      memory_(memory),
      options_(options),
      weights_(weights),
      rules_(Rules(options)),
      callback_(std::move(callback)),
      front_end_(FrontEndOf(model)),
      slides_mean_(SlidesMean(model)),
      own_bias_(bias == nullptr ? decode::MakeBias(graph, recognize.bias) : nullptr),
      recognizer_(graph, model.hmm(), recognize, rescorer, bias != nullptr ? bias : own_bias_.get()),
      activity_(activity) {
  BeginAudio();
}

void LiveRecognizer::BeginAudio() {
  const feat::SpeakerMean mean = memory_ != nullptr ? memory_->mean : feat::SpeakerMean();
  frames_ = std::make_unique<feat::FrontEndStream>(front_end_, /*utterance=*/0, mean);
  if (slides_mean_) {
    cmvn_ = std::make_unique<feat::SlidingCmvnStream>(front_end_.dim(), options_.cmvn, mean);
  }
  if (activity_ != nullptr) {
    turns_.emplace(*activity_, sample_rate_hz(), front_end_.options().frame_shift_ms / 1000.0, model_.subsampling());
  }
  has_sound_ = false;
  zeros_.emplace(sample_rate_hz());
  if (options_.learn_speaker && model_.transform() != nullptr) {
    learning_.emplace(model_, memory_ != nullptr ? memory_->learnt : pipeline::LearntTransform());
  }
  BeginScores(0, memory_ != nullptr ? memory_->heard : hmm::OnlineIvectorState());
}

void LiveRecognizer::BeginScores(int frame, hmm::OnlineIvectorState heard) {
  begin_frame_ = frame;
  scores_end_ = false;
  rows_.Clear();
  ScoreAnew();
  if (model_.ivectors() != nullptr) vectors_.emplace(model_.ivectors(), std::move(heard));
  zeros_->ForgetBefore(begin_frame_ * frame_shift_s());
  recognizer_.Start();
}

void LiveRecognizer::ScoreAnew() {
  score_anew_ = false;
  scored_from_ = begin_frame_;
  scorer_ = std::make_unique<infer::NnetScorer>(model_.network(), profile_);
  if (model_.transform() == nullptr) return;
  const Matrix* const of_speaker = learning_ ? learning_->transform() : nullptr;
  transform_.emplace(of_speaker == nullptr ? *model_.transform() : model_.transform()->Then(*of_speaker));
  if (rows_.size() == 0) return;
  scorer_->Accept(transform_->Accept(rows_.First(rows_.size()), scores_end_));
  if (scores_end_) scorer_->Finish();
}

void LiveRecognizer::Accept(std::span<const float> samples) {
  frames_->Accept(samples);
  zeros_->Accept(samples);
  has_sound_ = has_sound_ || std::ranges::any_of(samples, [](float x) { return x != 0; });
  Matrix frames = TakeNormalised(false);
  if (turns_) {
    turns_->Hear(samples);
    return FollowTurns(frames, false);
  }
  Score(std::move(frames), false);
  Search(false);
}

void LiveRecognizer::Finish() {
  frames_->Finish();
  Matrix frames = TakeNormalised(true);
  if (turns_) {
    FollowTurns(frames, true);
    Remember();
    return BeginAudio();
  }
  Score(std::move(frames), true);
  Search(true);
  Remember();
  BeginAudio();
}

Matrix LiveRecognizer::TakeNormalised(bool ended) {
  Matrix frames = frames_->Take();
  if (!cmvn_) return frames;
  cmvn_->Accept(frames);
  if (ended) cmvn_->Finish();
  return cmvn_->Take();
}

void LiveRecognizer::Score(Matrix frames, bool ended) {
  if (learning_) rows_.Accept(frames);
  if (transform_) frames = transform_->Accept(frames, ended);
  if (vectors_) frames = vectors_->Accept(frames, ended);
  scorer_->Accept(frames);
  scores_end_ = ended;
  if (ended) scorer_->Finish();
}

void LiveRecognizer::FollowTurns(const Matrix& frames, bool ended) {
  turns_->Accept(frames);
  if (ended) turns_->Finish();
  while (auto piece = turns_->Next()) {
    if (piece->first) {
      BeginScores(static_cast<int>(piece->begin / model_.subsampling()),
                  vectors_ ? vectors_->state() : hmm::OnlineIvectorState());
    }
    if (piece->rows.empty()) piece->rows = Matrix(0, frames.cols());
    Score(std::move(piece->rows), piece->last);
    Search(piece->last);
  }
}

void LiveRecognizer::Remember() {
  // Silence that was switched off says nothing of who speaks.
  if (memory_ == nullptr || !has_sound_) return;
  memory_->mean = cmvn_ ? cmvn_->speaker() : frames_->speaker();
  if (learning_) memory_->learnt = learning_->learnt();
  if (vectors_) memory_->heard = vectors_->state();
}

void LiveRecognizer::Search(bool ended) {
  for (;;) {
    const int before = recognizer_.decoder().num_frames();
    const int step = std::max(1, options_.step_frames / model_.subsampling());
    const int waiting = std::min(scored_from_ + scorer_->num_frames_ready() - begin_frame_ - before, step);
    if (waiting < (ended ? 1 : step)) break;
    decode::ScoresFrom scores(*scorer_, begin_frame_ - scored_from_);
    try {
      recognizer_.Advance(scores, waiting);
    } catch (const ShapeError&) {
      throw;
    } catch (const InputError& e) {
      // Nothing goes on from here (a grammar that is at its end): speech that follows is another utterance.
      LiveResult lost{
          .final = true, .begin_frame = begin_frame_, .num_frames = before + waiting, .partial = {}, .recognition = {}};
      lost.recognition.remark = e.what();
      callback_(lost);
      NextUtterance(before + waiting);
      continue;
    }
    const auto state = decode::ObserveEndpoint(recognizer_.decoder(), model_.hmm(), recognizer_.head_start());
    const bool over = decode::IsEndpoint(state, rules_, frame_shift_s());
    Report(over);
    if (over) NextUtterance(before + waiting);
  }
  if (ended && recognizer_.decoder().num_frames() > 0) Report(true);
}

void LiveRecognizer::NextUtterance(int frames_of_this) {
  rows_.Drop(std::min(rows_.size(), RowOf(frames_of_this)));
  begin_frame_ += frames_of_this;
  zeros_->ForgetBefore(begin_frame_ * frame_shift_s());
  if (turns_) turns_->ForgetCertaintyBefore(RowOf(begin_frame_));
  if (score_anew_) ScoreAnew();
  recognizer_.Start();
}

bool LiveRecognizer::IsHardlySpeech(const LiveResult& result) const {
  if (!turns_) return false;
  const double certainty = turns_->Certainty(RowOf(result.begin_frame), RowOf(result.begin_frame + result.num_frames));
  return pipeline::IsHardlySpeech(result.recognition, result.num_frames * frame_shift_s(), certainty,
                                  activity_->least_contrast());
}

void LiveRecognizer::LearnFrom(LiveResult& result) {
  const int64_t rows = std::min(rows_.size(), RowOf(result.num_frames));
  try {
    if (!learning_->Learn(rows_.First(rows), result.recognition)) return;
  } catch (const ShapeError&) {
    throw;
  } catch (const InputError&) {
    return;  // its words stand
  }
  // Frames that are scored together count from where scoring begins: all of the utterance's may not be there yet.
  if (model_.network()->group() == model_.subsampling()) {
    RecognizeAgain(result);
  } else {
    score_anew_ = true;
  }
}

void LiveRecognizer::RecognizeAgain(LiveResult& result) {
  ScoreAnew();
  decode::ScoresFrom scores(*scorer_, 0);
  recognizer_.Start();
  try {
    recognizer_.Advance(scores, result.num_frames);
    decode::Recognition again = recognizer_.Finish(weights_);
    if (!again.best.words.empty()) result.recognition = std::move(again);
  } catch (const ShapeError&) {
    throw;
  } catch (const InputError&) {
    // What was recognised before stands.
  }
}

bool LiveRecognizer::AllZero(int num_frames) const {
  return zeros_->Cover(begin_frame_ * frame_shift_s(), (begin_frame_ + num_frames) * frame_shift_s(), frame_shift_s());
}

void LiveRecognizer::Report(bool final) {
  LiveResult result;
  result.final = final;
  result.begin_frame = begin_frame_;
  result.num_frames = recognizer_.decoder().num_frames();
  if (AllZero(result.num_frames)) {
    if (final) result.recognition.remark = feat::kAllZeroRemark;
  } else if (final) {
    result.recognition = recognizer_.Finish(weights_);
    if (learning_ && !IsHardlySpeech(result)) LearnFrom(result);
    if (IsHardlySpeech(result)) {
      result.recognition = {};
      result.recognition.remark = pipeline::kHardlySpeechRemark;
    }
  } else {
    result.partial = recognizer_.decoder().BestPath();
  }
  callback_(result);
}

}  // namespace antiphon
