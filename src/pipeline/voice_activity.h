// What is decoded of a recording: all of it, or, with a model that tells speech from other sound (vad/), the turns of
// speech.
//
// A turn is recognised as an utterance of its own: it ends where the model says, search and network begin anew, and
// what lies between turns is neither scored nor searched. Utterances that are hardly speech lose their words
// (IsHardlySpeech). Mean and variance are still those of the whole recording.
//
// Units: seconds; rows of features. Threads: const methods may run together. Errors: InputError naming the model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/feature_parts.h"
#include "decode/search/recognize.h"
#include "pipeline/utterance_features.h"
#include "vad/speech_certainty.h"
#include "vad/speech_stream.h"

namespace antiphon::pipeline {

/// What is said of a recording without a turn, in place of words.
inline constexpr char kNoSpeechRemark[] = "no speech was heard: no words were looked for";
/// The same where all utterances are hardly speech.
inline constexpr char kHardlySpeechRemark[] =
    "what was heard is hardly speech: its words are left out (--vad-contrast)";

/// From one time to another; infinity: to the end.
struct SpeechTurn {
  double begin_s = 0;
  double end_s = 0;

  bool operator==(const SpeechTurn&) const = default;
};

/// Of one recording.
struct HeardSpeech {
  std::vector<SpeechTurn> turns;
  vad::SpeechCertainty certainty;
};

class VoiceActivity {
 public:
  /// Null unless the options ask for a model. One in a bundle is found there. `least_contrast`: what
  /// least_contrast() says.
  static std::shared_ptr<const VoiceActivity> Load(const vad::VadOptions& options, double least_contrast = 0.0);

  HeardSpeech Hear(const data::AudioPieces& audio, int rate_hz) const;
  vad::SpeechStream Stream(int rate_hz, std::function<void(double)> listener = {}) const {
    return {model_, options_, rate_hz, std::move(listener)};
  }
  /// Of sound that was not heard yet.
  vad::SpeechCertainty NoCertainty() const { return {options_.threshold, model_->frame_shift_s()}; }
  const vad::SpeechModel& model() const { return *model_; }
  /// Nats that IsHardlySpeech asks for.
  double least_contrast() const { return least_contrast_; }

 private:
  VoiceActivity(const vad::VadOptions& options, std::shared_ptr<const vad::SpeechModel> model, double least_contrast)
      : options_(options), model_(std::move(model)), least_contrast_(least_contrast) {}

  vad::VadOptions options_;
  std::shared_ptr<const vad::SpeechModel> model_;
  double least_contrast_;
};

/// Whether an utterance of `seconds` has words that are not to stand, as it is music or noise: its contrast
/// (decode/search/contrast.h) times the square of the voice activity's certainty is less than `least_contrast` (nats).
/// Noise under speech takes away contrast rather than certainty. Short utterances are not judged: single words have few
/// sounds, and so little contrast.
bool IsHardlySpeech(const decode::Recognition& recognition, double seconds, double certainty, double least_contrast);

/// Rows of features from `begin` to before `end`.
struct RowSpan {
  int64_t begin = 0;
  int64_t end = 0;
};
/// Of the turns, in a recording of `num_rows`; ends lie between frames of the search, which stand for `subsampling`
/// rows each. Empty ones are left out.
std::vector<RowSpan> RowsOf(const std::vector<SpeechTurn>& turns, int64_t num_rows, double row_shift_s,
                            int subsampling);

/// Hands the rows of each span to `use`, in pieces; they are told the span, and whether it ends with them.
using UseRows = std::function<void(ConstMatrixView rows, const RowSpan& span, bool last)>;
void ForRows(UtteranceFeatures& features, const std::vector<RowSpan>& spans, const UseRows& use,
             const std::function<void(int64_t rows)>& done = {});

/// The rows of all turns, one behind the other.
class TurnFeatures : public UtteranceFeatures {
 public:
  TurnFeatures(std::shared_ptr<UtteranceFeatures> whole, std::vector<RowSpan> spans);

  int64_t num_frames() const override { return num_frames_; }
  /// Not known.
  const feat::ZeroSpans& zeros() const override { return zeros_; }
  Matrix Whole() override;
  void InParts(const Use& use) override;

 private:
  std::shared_ptr<UtteranceFeatures> whole_;
  std::vector<RowSpan> spans_;
  int64_t num_frames_ = 0;
  feat::ZeroSpans zeros_{1};
};

}  // namespace antiphon::pipeline
