#include "hmm/any_speech_scores.h"

#include <algorithm>
#include <numeric>

namespace antiphon::hmm {

AnySpeechScores::AnySpeechScores(ScoreSource& scores, double share)
    : scores_(scores),
      num_best_(std::max<size_t>(1, static_cast<size_t>(share * scores.num_pdfs()))),
      all_(static_cast<size_t>(scores.num_pdfs())) {
  std::iota(all_.begin(), all_.end(), 0);
}

float AnySpeechScores::LogLikelihood(int frame, int32_t pdf_id) {
  if (pdf_id == scores_.num_pdfs()) return AnySpeech(frame);
  const std::span<const float> dense = scores_.DenseFrame(frame);
  return dense.empty() ? scores_.LogLikelihood(frame, pdf_id) : dense[static_cast<size_t>(pdf_id)];
}

void AnySpeechScores::Request(int frame, std::span<const int32_t> pdf_ids) {
  asked_.clear();
  for (const int32_t pdf_id : pdf_ids) {
    if (pdf_id == scores_.num_pdfs()) return scores_.Request(frame, all_);
    asked_.push_back(pdf_id);
  }
  scores_.Request(frame, asked_);
}

float AnySpeechScores::AnySpeech(int frame) {
  if (frame == frame_) return any_speech_;
  const std::span<const float> dense = scores_.DenseFrame(frame);
  values_.assign(dense.begin(), dense.end());
  if (dense.empty()) {
    for (const int32_t pdf_id : all_) values_.push_back(scores_.LogLikelihood(frame, pdf_id));
  }
  const auto end = values_.begin() + static_cast<std::ptrdiff_t>(num_best_);
  std::nth_element(values_.begin(), end - 1, values_.end(), std::greater<>());
  frame_ = frame;
  any_speech_ = static_cast<float>(std::accumulate(values_.begin(), end, 0.0) / static_cast<double>(num_best_));
  return any_speech_;
}

}  // namespace antiphon::hmm
