#include "parallel/curvature_samples.h"

#include <fmt/format.h>

#include "base/error.h"

namespace antiphon::parallel {

void CurvatureSamples::RequireTargets(const nn::LossTargets& targets, const nn::SequenceLoss* sequence) {
  if (sequence == nullptr) return nn::RequirePdfIds(targets, "Hessian-free training");
  if (targets.soft.data() == nullptr) return;
  throw UsageError(
      "Hessian-free training knows no curvature of a teacher's targets beside a sequence criterion: leave "
      "teacher.models out, or take another parallel.method");
}

void CurvatureSamples::Keep(const StepInput& input, const nn::Workspace& workspace) {
  if (input.features.rows() == 0 || std::ssize(minibatches_) >= most()) return;
  minibatches_.emplace_back(input);
  minibatches_.back().KeepStates(workspace);
}

std::span<const KeptMinibatch> CurvatureSamples::check() const {
  const std::span<const KeptMinibatch> rest = all().subspan(curvature().size());
  return rest.empty() ? curvature() : rest;
}

void CurvatureSamples::Save(SafetensorsWriter& writer, const std::string& prefix) const {
  for (size_t k = 0; k < minibatches_.size(); ++k) minibatches_[k].Save(writer, fmt::format("{}.kept.{}.", prefix, k));
}

void CurvatureSamples::Load(const SafetensorsReader& reader, const std::string& prefix, size_t count) {
  minibatches_.clear();
  for (size_t k = 0; k < count; ++k) minibatches_.emplace_back(reader, fmt::format("{}.kept.{}.", prefix, k));
}

}  // namespace antiphon::parallel
