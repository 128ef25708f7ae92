#include "pipeline/utterance_features.h"

#include <algorithm>
#include <utility>

namespace antiphon::pipeline {

bool IsNothingButZeros(const UtteranceFeatures& features, double frame_shift_s) {
  return features.zeros().Cover(0, static_cast<double>(features.num_frames()) * frame_shift_s, frame_shift_s);
}

StoredFeatures::StoredFeatures(const data::FeatureSource& source, std::string utt_id)
    : source_(source), utt_id_(std::move(utt_id)), zeros_(source.Zeros(utt_id_)) {
  if (source_.NumParts(utt_id_) == 1) read_ = source_.Get(utt_id_);
  num_frames_ = read_.empty() ? std::max<int64_t>(source_.NumFrames(utt_id_), 0) : read_.rows();
}

Matrix StoredFeatures::Whole() { return read_.empty() ? source_.Get(utt_id_) : std::exchange(read_, Matrix()); }

void StoredFeatures::InParts(const Use& use) {
  const int64_t parts = source_.NumParts(utt_id_);
  if (parts == 1) return use(Whole(), true);
  for (int64_t part = 0; part < parts; ++part) use(source_.GetPart(utt_id_, part), part + 1 == parts);
}

}  // namespace antiphon::pipeline
