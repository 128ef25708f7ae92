#include "pipeline/recording_features.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/compressed_matrix.h"
#include "data/feature_extraction.h"

namespace antiphon::pipeline {
namespace {

[[noreturn]] void ThrowChanged(int64_t before, int64_t now) {
  Throw<InputError>(
      "the recording changed while it was read: it had {} frames at first, then {}{}; read it again once nothing "
      "writes to it",
      before, now, now > before ? " or more" : "");
}

}  // namespace

RecordingFeatures::RecordingFeatures(const feat::FrontEnd& front_end, data::AudioPieces audio, int rate_hz,
                                     const RecordingOptions& options)
    : front_end_(front_end),
      audio_(std::move(audio)),
      rate_hz_(rate_hz),
      options_(options),
      zeros_(rate_hz),
      stats_(front_end.dim()) {
  options_.normalize_mean = options_.normalize_mean && front_end_.options().mean_window == 0;
  int64_t samples = 0;
  std::vector<Matrix> parts;
  const data::AudioPieces listened = [&](const auto& sink) {
    audio_([&](std::span<const float> piece) {
      samples += std::ssize(piece);
      long_ = static_cast<double>(samples) > data::kLongRecordingS * rate_hz_;
      zeros_.Accept(piece);
      check_.Accept(piece);
      sink(piece);
    });
  };
  const auto take = [&](Matrix&& part) {
    stats_.Add(part);
    num_frames_ += part.rows();
    if (!long_) parts.push_back(std::move(part));
    if (long_) parts.clear();
  };
  data::FramesInParts(listened, rate_hz_, front_end_, options_.utterance, take, options_.speaker, &speaker_);
  if (long_) return;
  kept_ = Matrix(num_frames_, front_end_.dim());
  float* to = kept_.data();
  for (const Matrix& part : parts) to = std::copy_n(part.data(), part.size(), to);
  if (num_frames_ > 0) kept_ = Finished(kept_);
}

Matrix RecordingFeatures::Whole() {
  if (!long_) return kept_;
  Matrix whole(num_frames_, front_end_.dim());
  float* to = whole.data();
  InParts([&](Matrix&& part, bool) { to = std::copy_n(part.data(), part.size(), to); });
  return whole;
}

void RecordingFeatures::InParts(const Use& use) {
  if (!long_) return use(Matrix(kept_), true);
  std::optional<Matrix> held;  // until it is known whether it is the last
  int64_t frames = 0;
  const auto take = [&](Matrix&& part) {
    frames += part.rows();
    if (frames > num_frames_) ThrowChanged(num_frames_, frames);
    if (held) use(std::move(*held), false);
    held = Finished(part);
  };
  data::FramesInParts(audio_, rate_hz_, front_end_, options_.utterance, take, options_.speaker);
  if (!held || frames < num_frames_) ThrowChanged(num_frames_, frames);
  use(std::move(*held), true);
}

Matrix RecordingFeatures::Finished(const Matrix& part) const {
  static const auto k_coding = data::MatrixCodingFromName(data::FeatureExtractionOptions().coding);
  Matrix stored = data::AsStored(part, k_coding);
  if (options_.normalize_mean) stats_.Apply(stored, options_.normalize_variance);
  return stored;
}

}  // namespace antiphon::pipeline
