#include "speaker_vectors.h"

#include <fmt/format.h>

#include "base/config.h"
#include "base/error.h"
#include "data/archive.h"

namespace antiphon::app {
namespace {

constexpr char kKey[] = "speaker-vector-dim";

}  // namespace

std::string DescribeSpeakerVectors(const std::string& table) {
  if (table.empty()) return "";
  data::SequentialReader<std::vector<float>> reader(table);
  if (!reader.Next()) Throw<InputError>("'{}' has no vectors of speakers", table);
  return fmt::format("{} = {}\n", kKey, reader.value().size());
}

int SpeakerVectorDim(const data::FrameStore& store) {
  const Config description = Config::Parse(store.description(), store.folder().string());
  return static_cast<int>(description.Int(kKey).value_or(0));
}

}  // namespace antiphon::app
