// Language models and grammars as transducers over word ids (tropical weights, −log probability).
//
// Word ids are those of the recogniser's word table: 0 is epsilon. What the table lacks is left out, since it cannot be
// recognised. All functions overwrite `fst`, return the words left out, sorted, and throw InputError if no sentence
// remains.
#pragma once

#include <fst/fst-decl.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/lm/ngram.h"

namespace antiphon::decode {

/// Id of a word, or −1 if the recogniser lacks it.
using WordLookup = std::function<int32_t(std::string_view)>;

/// One state per history that matters; backing off reads `backoff_label` (#0) and writes nothing; </s> becomes a final
/// weight.
std::vector<std::string> NgramToFst(const NgramModel& model, const WordLookup& lookup, int32_t backoff_label,
                                    fst::StdVectorFst* fst);

/// Any sequence of the words, all equally likely, a sentence end being as likely as a word.
std::vector<std::string> WordLoopFst(const std::vector<std::string>& words, const WordLookup& lookup,
                                     fst::StdVectorFst* fst);

/// OpenFst's text form of an acceptor or transducer over words ("from to in [out] [weight]", "state [weight]"); its
/// input words are what is recognised. Refuses broken lines with file:line.
std::vector<std::string> GrammarFromText(const std::filesystem::path& path, const WordLookup& lookup,
                                         fst::StdVectorFst* fst);
std::vector<std::string> ParseGrammar(std::string_view text, const std::string& source, const WordLookup& lookup,
                                      fst::StdVectorFst* fst);

}  // namespace antiphon::decode
