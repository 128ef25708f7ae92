// Lexicons: any text is read or refused; what was read survives its own printing.
#include <cstdint>
#include <cstdlib>

#include "base/error.h"
#include "hmm/lexicon.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  antiphon::hmm::LexiconOptions options;
  options.position_dependent = data[0] % 2 == 1;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const auto lexicon = antiphon::hmm::Lexicon::Parse(text, "lexicon.txt", options);
    for (int32_t word = 1; word <= lexicon.num_words(); ++word) {
      if (lexicon.FindWord(lexicon.Word(word)) != word) std::abort();
      lexicon.PronunciationsOf(word);
    }
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
