// Lattices as text, and grammars (first byte odd): any text is read or refused; what was read survives its own
// printing.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "decode/lattice/lattice_text.h"
#include "decode/lm/ngram_fst.h"
#include "hmm/graph/openfst.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace antiphon::decode;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] % 2 == 1) {
      fst::StdVectorFst grammar;
      ParseGrammar(
          text, "grammar.txt", [](std::string_view word) { return word == "A" ? 1 : -1; }, &grammar);
      return 0;
    }
    for (const auto& [utt_id, lattice] : ParseLattices(text, "lattices")) {
      ParseLattices(LatticeToText(utt_id, lattice), "printed");
      if (!lattice.empty() && lattice.states.size() < 1000) BestPath(lattice, {0.1, 0.0});
    }
  } catch (const antiphon::InternalError&) {
    throw;
  } catch (const antiphon::Error&) {
  }
  return 0;
}
