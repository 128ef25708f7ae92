// A source of scores whose frames count from a later one on: what a search that begins amid a recording sees.
#pragma once

#include "base/score_source.h"

namespace antiphon::decode {

class ScoresFrom : public ScoreSource {
 public:
  /// `source` must outlive this.
  ScoresFrom(ScoreSource& source, int first_frame) : source_(source), first_(first_frame) {}

  int num_pdfs() const override { return source_.num_pdfs(); }
  int num_frames_ready() const override { return source_.num_frames_ready() - first_; }
  bool IsLastFrame(int frame) const override { return source_.IsLastFrame(first_ + frame); }
  float LogLikelihood(int frame, int32_t pdf_id) override { return source_.LogLikelihood(first_ + frame, pdf_id); }
  std::span<const float> DenseFrame(int frame) override { return source_.DenseFrame(first_ + frame); }
  void Request(int frame, std::span<const int32_t> pdf_ids) override { source_.Request(first_ + frame, pdf_ids); }

 private:
  ScoreSource& source_;
  int first_;
};

}  // namespace antiphon::decode
