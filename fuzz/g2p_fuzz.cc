// Grapheme-to-phoneme models: letters, units, the n-grams. What was read pronounces a word, or says why not.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "fuzz_file.h"
#include "g2p/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string sealed = antiphon::fuzz::WriteSealed("sealed.g2p", data, size);
  if (sealed.empty()) return 0;
  try {
    const antiphon::g2p::Model model = antiphon::g2p::Model::Load(sealed);
    std::string word;
    for (const std::string& letter : model.letters()) {
      if (word.size() < 8) word += letter;
    }
    for (const antiphon::g2p::Guess& guess : model.Pronounce(word, {.nbest = 3})) {
      if (guess.phones.empty() || !(guess.probability >= 0 && guess.probability <= 1)) std::abort();
    }
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
