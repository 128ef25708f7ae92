#include "parallel/kept_minibatch.h"

#include <algorithm>
#include <numeric>

namespace antiphon::parallel {

KeptMinibatch::KeptMinibatch(const StepInput& input)
    : features(input.features),
      pdf_ids(input.targets.pdf_ids.begin(), input.targets.pdf_ids.end()),
      weights(input.targets.frame_weights.begin(), input.targets.frame_weights.end()),
      soft_weight(input.targets.soft_weight),
      temperature(input.targets.temperature),
      heads(input.targets.heads) {
  if (input.targets.soft.data() != nullptr) soft = Matrix(input.targets.soft);
  kept_sequences.Keep(input.context.sequences);
  if (input.targets.sequence != nullptr) sequence_rows = input.targets.sequence->Rows();
}

void KeptMinibatch::KeepStates(const nn::Workspace& workspace) {
  const SequenceLayout* const layout = sequences();
  if (layout != nullptr && std::ranges::find(layout->begins, 0) != layout->begins.end()) states = workspace.States();
  // Where nothing was carried yet, streams go on from zero.
  if (states.empty()) kept_sequences.LetAllBegin();
}

KeptMinibatch::KeptMinibatch(const SafetensorsReader& reader, const std::string& prefix)
    : features(reader.ReadMatrix(prefix + "features")) {
  for (const int64_t id : reader.ReadInts(prefix + "pdf_ids")) pdf_ids.push_back(static_cast<int32_t>(id));
  if (reader.Has(prefix + "weights")) weights = reader.ReadFloats(prefix + "weights");
  if (reader.Has(prefix + "sequence_rows")) sequence_rows = reader.ReadInts(prefix + "sequence_rows");
  if (reader.Has(prefix + "soft")) {
    soft = reader.ReadMatrix(prefix + "soft");
    const std::vector<double> numbers = reader.ReadDoubles(prefix + "soft_numbers");
    soft_weight = numbers.at(0);
    temperature = numbers.at(1);
  }
  if (reader.Has(prefix + "heads")) heads = static_cast<int>(reader.ReadInts(prefix + "heads").at(0));
  if (reader.Has(prefix + "states")) {
    const std::span<const std::byte> stored = reader.Tensor(prefix + "states").data;
    states.assign(stored.begin(), stored.end());
  }
  kept_sequences.Load(reader, prefix);
}

void KeptMinibatch::Save(SafetensorsWriter& writer, const std::string& prefix) const {
  writer.Add(prefix + "features", features);
  writer.Add(prefix + "pdf_ids", std::span<const int32_t>(pdf_ids));
  if (!weights.empty()) writer.Add(prefix + "weights", std::span<const float>(weights));
  if (!sequence_rows.empty()) writer.Add(prefix + "sequence_rows", std::span<const int64_t>(sequence_rows));
  if (soft.rows() > 0) {
    writer.Add(prefix + "soft", soft);
    const std::vector<double> numbers = {soft_weight, temperature};
    writer.Add(prefix + "soft_numbers", std::span<const double>(numbers));
  }
  if (heads > 1) {
    const std::vector<int64_t> number = {heads};
    writer.Add(prefix + "heads", std::span<const int64_t>(number));
  }
  if (!states.empty()) writer.Add(prefix + "states", TensorType::kU8, {std::ssize(states)}, states);
  kept_sequences.Save(writer, prefix);
}

nn::LossTargets KeptMinibatch::targets(nn::SequenceLoss* sequence) const {
  nn::LossTargets targets;
  if (sequence != nullptr) {
    sequence->SetRows(sequence_rows);
    targets.sequence = sequence;
  }
  targets.pdf_ids = pdf_ids;
  targets.frame_weights = weights;
  targets.heads = heads;
  if (soft.rows() > 0) {
    targets.soft = soft;
    targets.soft_weight = soft_weight;
    targets.temperature = temperature;
  }
  return targets;
}

int64_t KeptMinibatch::num_targets() const { return soft.rows() > 0 ? soft.rows() : std::ssize(pdf_ids) / heads; }

double KeptMinibatch::weight() const {
  return weights.empty() ? static_cast<double>(num_targets()) : std::accumulate(weights.begin(), weights.end(), 0.0);
}

}  // namespace antiphon::parallel
