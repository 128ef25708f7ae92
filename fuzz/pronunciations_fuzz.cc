// Probabilities of pronunciations and pauses, the two files with a form feed between them: any text is read or refused;
// what was read builds a lexicon transducer.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "hmm/graph/lexicon_fst.h"
#include "hmm/graph/openfst.h"
#include "hmm/graph/pronunciation_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace antiphon::hmm;
  static const Lexicon lexicon = Lexicon::Parse("a AH\na EY\ncat K AE T\n", "lexicon.txt");
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t cut = text.find('\f');
  if (cut == std::string_view::npos) return 0;
  try {
    const PronunciationModel model =
        ParsePronunciations(text.substr(0, cut), "entries", text.substr(cut + 1), "pauses", lexicon, nullptr);
    const std::string printed = EntriesToText(model, lexicon);
    if (model.entries.size() != lexicon.entries().size() || printed.empty()) std::abort();
    fst::StdVectorFst l;
    BuildLexiconFst(lexicon, true, &l, &model);
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
