// The features of one recording, as `antiphon decode` has them of a data directory in which it is the one utterance of
// its speaker: computed as the model says, coded as a table of features is, normalised by the recording's own
// statistics.
//
// Memory: those of a recording of up to data::kLongRecordingS are kept; longer ones are computed anew each time that
// they are asked for, as the mean is known at the end only.
// Threads: one per object. Errors: those of the audio; InputError for samples that are not finite, and for a recording
// that has other frames when it is read again.
#pragma once

#include <cstdint>

#include "data/feature_parts.h"
#include "feat/audio_check.h"
#include "feat/cmvn.h"
#include "feat/front_end.h"
#include "feat/zero_spans.h"
#include "pipeline/utterance_features.h"

namespace antiphon::pipeline {

struct RecordingOptions {
  bool normalize_mean = true;  // front ends that take a mean out themselves leave nothing to normalise
  bool normalize_variance = false;
  uint64_t utterance = 0;          // feat::UtteranceSeed
  feat::SpeakerMean speaker = {};  // of earlier utterances
};

class RecordingFeatures : public UtteranceFeatures {
 public:
  /// `audio` hands over the samples, on the 16-bit scale; it is called several times.
  RecordingFeatures(const feat::FrontEnd& front_end, data::AudioPieces audio, int rate_hz,
                    const RecordingOptions& options);

  int64_t num_frames() const override { return num_frames_; }
  const feat::ZeroSpans& zeros() const override { return zeros_; }
  const feat::AudioCheck& check() const { return check_; }
  /// For the speaker's next utterance.
  const feat::SpeakerMean& speaker() const { return speaker_; }
  Matrix Whole() override;
  void InParts(const Use& use) override;

 private:
  // As a table would hold it, and normalised.
  Matrix Finished(const Matrix& part) const;

  feat::FrontEnd front_end_;
  data::AudioPieces audio_;
  int rate_hz_;
  RecordingOptions options_;
  feat::ZeroSpans zeros_;
  feat::AudioCheck check_;
  feat::CmvnStats stats_;
  feat::SpeakerMean speaker_;
  int64_t num_frames_ = 0;
  bool long_ = false;
  Matrix kept_;  // unless long_
};

}  // namespace antiphon::pipeline
