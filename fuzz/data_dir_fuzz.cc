// Data directories: the input, cut at form feeds, gives wav.scp, text, utt2spk, segments, spk2gender and utt2dur.
#include <algorithm>
#include <array>
#include <cstdint>

#include "base/error.h"
#include "data/data_dir.h"
#include "fuzz_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using antiphon::fuzz::FuzzFolder;
  constexpr std::array<const char*, 6> kFiles = {"wav.scp", "text", "utt2spk", "segments", "spk2gender", "utt2dur"};
  const uint8_t* end = data + size;
  for (const char* file : kFiles) {
    const uint8_t* cut = std::find(data, end, '\f');
    if (data < end || file == kFiles[0]) {
      FuzzFolder::Write(file, data, static_cast<size_t>(cut - data));
    } else {
      std::error_code ignored;
      std::filesystem::remove(FuzzFolder::Get() / file, ignored);
    }
    data = cut == end ? end : cut + 1;
  }
  antiphon::data::DataDir::Validate(FuzzFolder::Get());
  try {
    const auto dir = antiphon::data::DataDir::Load(FuzzFolder::Get());
    for (const auto& utterance : dir.utterances()) dir.Find(utterance.utt_id);
    dir.Subset({0});
    dir.SplitBySpeaker(0.3, 1);
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
