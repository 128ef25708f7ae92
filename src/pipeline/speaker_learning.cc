#include "pipeline/speaker_learning.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "hmm/gmm_fmllr.h"
#include "pipeline/speaker_transforms.h"

namespace antiphon::pipeline {
namespace {

constexpr double kFewestSureFrames = 30;
constexpr double kGrowth = 1.25;  // of the speech, for another estimate
constexpr double kLeastConfidence = 0.5;

Matrix TransformFrom(const std::vector<double>& values, int64_t dim) {
  if (values.empty()) return {};
  Matrix transform(dim, dim + 1);
  if (std::ssize(values) != transform.size()) {
    Throw<ShapeError>("a speaker's transform has {} numbers, expected {}", values.size(), transform.size());
  }
  std::ranges::transform(values, transform.data(), [](double v) { return static_cast<float>(v); });
  return transform;
}

}  // namespace

SpeakerLearning::SpeakerLearning(const AcousticModel& model, const LearntTransform& speaker)
    : model_(model),
      gaussians_(*model.adaptive()),
      prior_({.statistics = &model.expected_speech(), .weight = kSpeakerPriorFrames}),
      heard_(gaussians_.gmm.dim(), speaker.heard),
      estimated_from_(speaker.estimated_from),
      transform_(TransformFrom(speaker.transform, gaussians_.gmm.dim())) {}

LearntTransform SpeakerLearning::learnt() const {
  return {heard_.Statistics(), estimated_from_, {transform_.data(), transform_.data() + transform_.size()}};
}

bool SpeakerLearning::Learn(const Matrix& features, const decode::Recognition& recognition) {
  if (recognition.best.words.empty() || features.rows() == 0) return false;
  const std::vector<int32_t> pdfs = PdfsOf(features, recognition);
  if (pdfs.empty()) return false;
  const Matrix frames = gaussians_.transform.Apply(features);
  hmm::FmllrEstimator heard = With(frames, pdfs, transform_);
  if (heard.posterior() < kGrowth * estimated_from_) {
    heard_ = std::move(heard);
    return false;
  }
  // Once more with the Gaussians of the speaker.
  hmm::FmllrEstimator::Result result = heard.Estimate(kFewestSureFrames, prior_);
  if (result.estimated) {
    heard = With(frames, pdfs, result.transform);
    result = heard.Estimate(kFewestSureFrames, prior_);
  }
  const std::span<const float> values(result.transform.data(), static_cast<size_t>(result.transform.size()));
  if (!std::ranges::all_of(values, [](float v) { return std::isfinite(v); })) return false;
  heard_ = std::move(heard);
  if (!result.estimated) return false;
  estimated_from_ = heard_.posterior();
  transform_ = std::move(result.transform);
  return true;
}

std::vector<int32_t> SpeakerLearning::PdfsOf(const Matrix& features, const decode::Recognition& recognition) const {
  std::vector<hmm::AlignGraph::Instance> phones;
  for (const decode::TimedPhone& phone : recognition.times.phones) {
    const int32_t known = gaussians_.hmm.phones().Find(model_.hmm().phones().Name(phone.phone));
    if (known <= 0) return {};
    phones.push_back({known, phone.word_index});
  }
  const bool has_confidences = recognition.confidences.size() == recognition.best.words.size();
  if (phones.empty() || !has_confidences) return {};
  hmm::GmmScorer scores = gaussians_.Scores(features, transform());
  const hmm::Alignment found =
      hmm::Align(gaussians_.hmm, hmm::BuildPhoneSequenceGraph(gaussians_.hmm, phones), scores, {});
  if (!found.ok()) return {};
  std::vector<int32_t> pdfs = hmm::SpeechPdfs(gaussians_.hmm, found.transition_ids);
  for (const hmm::AlignedPhone& phone : found.phones) {
    const auto word = static_cast<size_t>(phone.word_position);
    if (phone.word_position < 0 || recognition.confidences[word] >= kLeastConfidence) continue;
    std::fill_n(pdfs.begin() + phone.begin_frame, phone.num_frames, -1);
  }
  return pdfs;
}

hmm::FmllrEstimator SpeakerLearning::With(const Matrix& frames, std::span<const int32_t> pdfs,
                                          const Matrix& transform) const {
  hmm::FmllrEstimator estimator = heard_;
  hmm::AccumulateFmllr(gaussians_, frames, pdfs, transform, estimator);
  return estimator;
}

}  // namespace antiphon::pipeline
