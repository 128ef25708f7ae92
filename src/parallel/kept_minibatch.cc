#include "parallel/kept_minibatch.h"

namespace antiphon::parallel {

KeptMinibatch::KeptMinibatch(const StepInput& input)
    : features(input.features),
      pdf_ids(input.targets.pdf_ids.begin(), input.targets.pdf_ids.end()),
      weights(input.targets.frame_weights.begin(), input.targets.frame_weights.end()) {}

KeptMinibatch::KeptMinibatch(const SafetensorsReader& reader, const std::string& prefix)
    : features(reader.ReadMatrix(prefix + "features")) {
  for (const int64_t id : reader.ReadInts(prefix + "pdf_ids")) pdf_ids.push_back(static_cast<int32_t>(id));
  if (reader.Has(prefix + "weights")) weights = reader.ReadFloats(prefix + "weights");
}

void KeptMinibatch::Save(SafetensorsWriter& writer, const std::string& prefix) const {
  writer.Add(prefix + "features", features);
  writer.Add(prefix + "pdf_ids", std::span<const int32_t>(pdf_ids));
  if (!weights.empty()) writer.Add(prefix + "weights", std::span<const float>(weights));
}

nn::LossTargets KeptMinibatch::targets() const {
  nn::LossTargets targets;
  targets.pdf_ids = pdf_ids;
  targets.frame_weights = weights;
  return targets;
}

}  // namespace antiphon::parallel
