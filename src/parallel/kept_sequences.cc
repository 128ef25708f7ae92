#include "parallel/kept_sequences.h"

namespace antiphon::parallel {

void KeptSequences::Keep(const SequenceLayout* layout) {
  layout_.reset();
  if (layout == nullptr) return;
  begins_.assign(layout->begins.begin(), layout->begins.end());
  lengths_.assign(layout->lengths.begin(), layout->lengths.end());
  See(layout->streams, layout->frames);
}

void KeptSequences::LetAllBegin() {
  if (!layout_) return;
  begins_.clear();
  See(layout_->streams, layout_->frames);
}

void KeptSequences::See(int streams, int frames) {
  layout_ = SequenceLayout{.streams = streams, .frames = frames, .begins = begins_, .lengths = lengths_};
}

void KeptSequences::Save(SafetensorsWriter& writer, const std::string& prefix) const {
  if (!layout_) return;
  const int32_t numbers[] = {layout_->streams, layout_->frames};
  writer.Add(prefix + "layout", std::span<const int32_t>(numbers));
  if (!begins_.empty()) writer.Add(prefix + "begins", std::span<const uint8_t>(begins_));
  if (!lengths_.empty()) writer.Add(prefix + "lengths", std::span<const int32_t>(lengths_));
}

void KeptSequences::Load(const SafetensorsReader& reader, const std::string& prefix) {
  *this = {};
  if (!reader.Has(prefix + "layout")) return;
  const std::vector<int64_t> numbers = reader.ReadInts(prefix + "layout");
  if (reader.Has(prefix + "begins")) {
    for (const int64_t b : reader.ReadInts(prefix + "begins")) begins_.push_back(b != 0 ? 1 : 0);
  }
  if (reader.Has(prefix + "lengths")) {
    for (const int64_t n : reader.ReadInts(prefix + "lengths")) lengths_.push_back(static_cast<int32_t>(n));
  }
  See(static_cast<int>(numbers.at(0)), static_cast<int>(numbers.at(1)));
}

}  // namespace antiphon::parallel
