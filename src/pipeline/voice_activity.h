// What is decoded of a recording: all of it, or, with a model that tells speech from other sound (vad/), the turns of
// speech.
//
// A turn is recognised as an utterance of its own: it ends where the model says, search and network begin anew, and
// what lies between turns is neither scored nor searched. Words that are not sure may be left out
// (VadOptions::least_confidence). Mean and variance are still those of the whole recording.
//
// Units: seconds; rows of features. Threads: const methods may run together. Errors: InputError naming the model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/feature_parts.h"
#include "pipeline/utterance_features.h"
#include "vad/speech_stream.h"

namespace antiphon::pipeline {

/// What is said of a recording without a turn, in place of words.
inline constexpr char kNoSpeechRemark[] = "no speech was heard: no words were looked for";
/// The same where all words are doubtful.
inline constexpr char kHardlySpeechRemark[] =
    "what was heard is hardly speech: its words are left out (--vad-confidence)";

/// From one time to another; infinity: to the end.
struct SpeechTurn {
  double begin_s = 0;
  double end_s = 0;

  bool operator==(const SpeechTurn&) const = default;
};

class VoiceActivity {
 public:
  /// Null unless the options ask for a model. One in a bundle is found there.
  static std::shared_ptr<const VoiceActivity> Load(const vad::VadOptions& options);

  std::vector<SpeechTurn> Turns(const data::AudioPieces& audio, int rate_hz) const;
  vad::SpeechStream Stream(int rate_hz, std::function<void(double)> listener = {}) const {
    return {model_, options_, rate_hz, std::move(listener)};
  }
  const vad::SpeechModel& model() const { return *model_; }
  double least_confidence() const { return options_.least_confidence; }

 private:
  VoiceActivity(const vad::VadOptions& options, std::shared_ptr<const vad::SpeechModel> model)
      : options_(options), model_(std::move(model)) {}

  vad::VadOptions options_;
  std::shared_ptr<const vad::SpeechModel> model_;
};

/// Whether an utterance's words are less sure than that, on average: other sound that the model took for speech. One or
/// two words say too little of it.
bool AreDoubtful(std::span<const double> confidences, double least_confidence);

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
