// What may be said, as files name it: an n-gram model, a grammar, or a list of words.
//
// Threads: plain functions. Errors: UsageError for more than one of them; InputError naming the file.
#pragma once

#include <fst/fst-decl.h>

#include <string>
#include <vector>

#include "hmm/lexicon.h"

namespace antiphon::pipeline {

/// One of them; the others are empty.
struct LanguageSource {
  std::string arpa = {};     // n-gram model, plain or gzipped
  std::string words = {};    // any sequence of these words, all equally likely
  std::string grammar = {};  // OpenFst text acceptor over words

  int count() const { return (arpa.empty() ? 0 : 1) + (words.empty() ? 0 : 1) + (grammar.empty() ? 0 : 1); }
};

/// Overwrites `grammar` with what the source says, over the lexicon's word ids; back-off arcs read backoff_word().
/// Warns of words that the lexicon lacks, and returns them: they are left out.
std::vector<std::string> ReadGrammar(const LanguageSource& source, const hmm::Lexicon& lexicon,
                                     fst::StdVectorFst* grammar);

/// Kind, name and checksum of the file, as graph.json has it.
std::string Describe(const LanguageSource& source);
/// The same of one file.
std::string DescribeFile(const std::string& kind, const std::string& file);

}  // namespace antiphon::pipeline
