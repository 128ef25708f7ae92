// Speech that is still being said: samples in, words out as they become clear.
//
//   LiveRecognizer live(model, graph, options, [&](const LiveResult& r) { … });
//   live.Accept(samples);   // any number at a time
//   live.Finish();
//
// Results: partial ones while an utterance goes on, a final one with times, confidences and lattice when the endpoint
// rules say that it is over, or at Finish. The search goes on in steps of a fixed number of frames and looks for
// endpoints between them, so that results are the same, bit for bit, however the audio is cut. Features are normalised
// by the mean of a sliding window, which does not wait for the end, unless the model takes them as they are. Memory
// does not grow with the speech. What is always the same is like the mean of speech: an utterance whose samples are
// all 0 has no words. With voice activity, each turn of speech is an utterance, or several, and nothing else is scored
// or searched; network, transforms and search begin anew with each, as in decoding recordings.
//
// A model that is trained for transforms of speakers (fMLLR) learns them from utterance to utterance
// (pipeline/speaker_learning.h). An utterance after which the transform changed is recognised again before its final
// result, which takes as long as the first time, at once; the network begins anew with it. A network that scores
// several frames together takes the transform from the next utterance on.
//
// A speaker's profile holds for all that is heard, until the object goes. Without a speaker's memory, audio begins with
// nothing known of who speaks; with one, where the speaker's last audio ended.
//
// Units: samples on the 16-bit scale at the model's rate; frames count from the start of the audio.
// Threads: one per object; model and graph are shared and must outlive it.
// Errors: UsageError for a model that cannot be used live: a GMM, or one whose features have pitch; InputError for
// samples that are not finite numbers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "api/live_turns.h"
#include "api/row_queue.h"
#include "base/options.h"
#include "decode/search/endpoint.h"
#include "decode/search/recognize.h"
#include "feat/cmvn.h"
#include "feat/front_end.h"
#include "feat/zero_spans.h"
#include "hmm/feature_transform_stream.h"
#include "hmm/online_ivector.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/speaker_learning.h"
#include "pipeline/speaker_memory.h"
#include "pipeline/voice_activity.h"

namespace antiphon {

struct LiveOptions {
  feat::SlidingCmvnOptions cmvn;
  int step_frames = 20;
  double max_utterance_s = 20.0;
  double silence_s = 0.5;
  bool learn_speaker = true;

  template <class V>
  void Visit(V& v) {
    v("cmvn-window", cmvn.window, Range{1, 1 << 20}, "frames whose mean is taken out of the features");
    v("cmvn-min-window", cmvn.min_window, Range{1, 1 << 20}, "frames to wait for at the start");
    v("norm-vars", cmvn.normalize_variance, "divide by the standard deviation too, as the model was trained");
    v("step-frames", step_frames, Range{1, 1000}, "frames between partial results and looks for an endpoint");
    v("endpoint-silence", silence_s, Range{0.05, 60.0}, "seconds of silence that end an utterance where one may end");
    v("max-utterance", max_utterance_s, Range{0.5, 3600.0}, "seconds after which an utterance is ended anyway");
    v("learn-speaker", learn_speaker,
      "a model that is trained for speakers' transforms (fMLLR) learns that of who speaks, and recognises an utterance "
      "anew at its end when it has learnt more");
  }
};

struct LiveResult {
  bool final = false;
  int begin_frame = 0;              // of the utterance
  int num_frames = 0;               // so far
  decode::LatticePath partial;      // best so far; only if not final
  decode::Recognition recognition;  // only if final
};

class LiveRecognizer {
 public:
  using Callback = std::function<void(const LiveResult&)>;
  /// `profile`: the speaker's, bound to model.network(); null: none. `memory`: what is known of the speaker, which
  /// grows with each Finish; null: nothing is known or kept. `rescorer`: exchanges the language model in the lattice of
  /// each utterance that is over, as in decode; null: none. `bias`: what the options of `recognize` ask for, made once
  /// for many; null: made here. `activity`: what tells turns of speech; null: everything is speech. All must outlive
  /// this.
  LiveRecognizer(const AcousticModel& model, const decode::Graph& graph, const decode::RecognizeOptions& recognize,
                 const decode::LatticeWeights& weights, const LiveOptions& options, Callback callback,
                 std::shared_ptr<const infer::BoundProfile> profile = nullptr, RememberedSpeaker* memory = nullptr,
                 const decode::LmRescorer* rescorer = nullptr, const decode::WordBias* bias = nullptr,
                 const pipeline::VoiceActivity* activity = nullptr);

  void Accept(std::span<const float> samples);
  /// The end of the audio. Afterwards new audio may begin.
  void Finish();

  int sample_rate_hz() const { return front_end_.options().sample_rate_hz; }
  /// Of the search, whose frames all numbers of frames here are.
  double frame_shift_s() const { return front_end_.options().frame_shift_ms / 1000.0 * model_.subsampling(); }

 private:
  void BeginAudio();
  // Frames on their way from the front end to the network: normalised, transformed if the model asks for it.
  Matrix TakeNormalised(bool ended);
  void Score(Matrix frames, bool ended);
  void FollowTurns(const Matrix& frames, bool ended);
  // An utterance of a speaker of whom so much is known.
  void BeginScores(int frame, hmm::OnlineIvectorState heard);
  // From the utterance's first frame on, by what is known of the speaker now.
  void ScoreAnew();
  void Remember();
  void Search(bool ended);
  void Report(bool final);
  // Of who speaks, from an utterance that is over; it is recognised again if the transform changed.
  void LearnFrom(LiveResult& result);
  void RecognizeAgain(LiveResult& result);
  // Of the utterance's first so many frames.
  bool AllZero(int num_frames) const;
  bool IsHardlySpeech(const LiveResult& result) const;
  // Of the features, at which a frame of the search begins.
  int64_t RowOf(int frame) const { return int64_t{frame} * model_.subsampling(); }
  void NextUtterance(int frames_of_this);

  const AcousticModel& model_;
  std::shared_ptr<const infer::BoundProfile> profile_;
  RememberedSpeaker* memory_;
  LiveOptions options_;
  decode::LatticeWeights weights_;
  std::vector<decode::EndpointRule> rules_;
  Callback callback_;
  feat::FrontEnd front_end_;
  const bool slides_mean_;
  std::unique_ptr<feat::FrontEndStream> frames_;
  std::unique_ptr<feat::SlidingCmvnStream> cmvn_;  // null: nothing is to be taken out
  std::optional<pipeline::SpeakerLearning> learning_;
  RowQueue rows_;  // of the utterance, and what is heard behind it, before the transform; while learning
  std::optional<hmm::FeatureTransformStream> transform_;
  std::optional<hmm::OnlineIvectors> vectors_;
  std::unique_ptr<const decode::WordBias> own_bias_;  // null: somebody else's, or none
  decode::Recognizer recognizer_;
  std::unique_ptr<infer::NnetScorer> scorer_;
  int scored_from_ = 0;  // the scorer's first frame
  bool scores_end_ = false;
  bool score_anew_ = false;  // with the next utterance
  const pipeline::VoiceActivity* activity_;
  std::optional<LiveTurns> turns_;
  int begin_frame_ = 0;
  std::optional<feat::ZeroSpans> zeros_;
  bool has_sound_ = false;  // anything but zeros
};

}  // namespace antiphon
