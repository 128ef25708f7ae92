// Transcripts as Kaldi text and CTM.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "score/transcript.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using antiphon::score::TranscriptFormat;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const TranscriptFormat format : {TranscriptFormat::kText, TranscriptFormat::kCtm}) {
    try {
      for (const auto& [utt_id, words] : antiphon::score::ParseTranscripts(text, format, "text").words) {
        for (const std::string& word : words) antiphon::score::Utf8Characters(word);
      }
    } catch (const antiphon::InputError&) {
    }
  }
  return 0;
}
