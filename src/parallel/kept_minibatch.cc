#include "parallel/kept_minibatch.h"

#include <algorithm>
#include <numeric>

namespace antiphon::parallel {

KeptMinibatch::KeptMinibatch(const StepInput& input)
    : features(input.features),
      pdf_ids(input.targets.pdf_ids.begin(), input.targets.pdf_ids.end()),
      weights(input.targets.frame_weights.begin(), input.targets.frame_weights.end()) {
  const SequenceLayout* sequences = input.context.sequences;
  if (sequences == nullptr) return;
  begins.assign(sequences->begins.begin(), sequences->begins.end());
  lengths.assign(sequences->lengths.begin(), sequences->lengths.end());
  MakeLayout(sequences->streams, sequences->frames);
}

void KeptMinibatch::MakeLayout(int streams, int frames) {
  layout = SequenceLayout{.streams = streams, .frames = frames, .begins = begins, .lengths = lengths};
}

void KeptMinibatch::KeepStates(const nn::Workspace& workspace) {
  const bool all_begin = std::find(begins.begin(), begins.end(), 0) == begins.end();
  if (!all_begin) states = workspace.States();
  // Where nothing was carried yet, streams go on from zero.
  if (!states.empty() || !layout) return;
  begins.clear();
  MakeLayout(layout->streams, layout->frames);
}

KeptMinibatch::KeptMinibatch(const SafetensorsReader& reader, const std::string& prefix)
    : features(reader.ReadMatrix(prefix + "features")) {
  for (const int64_t id : reader.ReadInts(prefix + "pdf_ids")) pdf_ids.push_back(static_cast<int32_t>(id));
  if (reader.Has(prefix + "weights")) weights = reader.ReadFloats(prefix + "weights");
  if (reader.Has(prefix + "states")) {
    const std::span<const std::byte> stored = reader.Tensor(prefix + "states").data;
    states.assign(stored.begin(), stored.end());
  }
  if (!reader.Has(prefix + "layout")) return;
  const std::vector<int64_t> numbers = reader.ReadInts(prefix + "layout");
  if (reader.Has(prefix + "begins")) {
    for (const int64_t b : reader.ReadInts(prefix + "begins")) begins.push_back(b != 0 ? 1 : 0);
  }
  if (reader.Has(prefix + "lengths")) {
    for (const int64_t n : reader.ReadInts(prefix + "lengths")) lengths.push_back(static_cast<int32_t>(n));
  }
  MakeLayout(static_cast<int>(numbers.at(0)), static_cast<int>(numbers.at(1)));
}

void KeptMinibatch::Save(SafetensorsWriter& writer, const std::string& prefix) const {
  writer.Add(prefix + "features", features);
  writer.Add(prefix + "pdf_ids", std::span<const int32_t>(pdf_ids));
  if (!weights.empty()) writer.Add(prefix + "weights", std::span<const float>(weights));
  if (!states.empty()) writer.Add(prefix + "states", TensorType::kU8, {std::ssize(states)}, states);
  if (!layout) return;
  const int32_t numbers[] = {layout->streams, layout->frames};
  writer.Add(prefix + "layout", std::span<const int32_t>(numbers));
  if (!begins.empty()) writer.Add(prefix + "begins", std::span<const uint8_t>(begins));
  if (!lengths.empty()) writer.Add(prefix + "lengths", std::span<const int32_t>(lengths));
}

nn::LossTargets KeptMinibatch::targets() const {
  nn::LossTargets targets;
  targets.pdf_ids = pdf_ids;
  targets.frame_weights = weights;
  return targets;
}

double KeptMinibatch::weight() const {
  return weights.empty() ? static_cast<double>(pdf_ids.size()) : std::accumulate(weights.begin(), weights.end(), 0.0);
}

}  // namespace antiphon::parallel
