// Normalised base features of one utterance, whole or part by part, wherever they come from: a table, or audio.
//
// Shapes: one frame per row. Threads: one per object. Errors: those of the source, naming the utterance.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/feature_source.h"
#include "feat/zero_spans.h"
#include "math/matrix.h"

namespace antiphon::pipeline {

class UtteranceFeatures {
 public:
  using Use = std::function<void(Matrix&& part, bool last)>;
  virtual ~UtteranceFeatures() = default;

  virtual int64_t num_frames() const = 0;
  /// Where the audio is nothing but zeros, as far as that is known.
  virtual const feat::ZeroSpans& zeros() const = 0;
  virtual Matrix Whole() = 0;
  /// Whole()'s rows one part after another, each held only while `use` needs it. May be called again.
  virtual void InParts(const Use& use) = 0;
};

/// Whether an utterance has nothing else.
bool IsNothingButZeros(const UtteranceFeatures& features, double frame_shift_s);

/// Of a table. One that is stored in parts is read when it is asked for, any other one at once.
class StoredFeatures : public UtteranceFeatures {
 public:
  /// `source` must outlive this.
  StoredFeatures(const data::FeatureSource& source, std::string utt_id);

  int64_t num_frames() const override { return num_frames_; }
  const feat::ZeroSpans& zeros() const override { return zeros_; }
  Matrix Whole() override;
  void InParts(const Use& use) override;

 private:
  const data::FeatureSource& source_;
  std::string utt_id_;
  feat::ZeroSpans zeros_;
  Matrix read_;  // until it is handed out
  int64_t num_frames_ = 0;
};

}  // namespace antiphon::pipeline
