// Languages of graphs that are no n-gram models: grammars and lists of words.
#include "pipeline/language_source.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "hmm/graph/openfst.h"
#include "temporary_folder.h"

namespace antiphon::pipeline {
namespace {

// "café", in the lexicon with é as one letter, here with e and an accent.
TEST(LanguageSource, WordsAreTheSameInBothFormsOfUnicode) {
  const testing::TemporaryFolder folder;
  const auto lexicon = hmm::Lexicon::Parse("caf\u00e9 k a f\nnoir n w a\n", "lexicon", {});
  WriteFileAtomically(folder / "grammar.txt", "0 1 cafe\u0301\n1 2 noir\n2\n");
  WriteFileAtomically(folder / "words.txt", "cafe\u0301\nnoir\n");
  fst::StdVectorFst grammar;
  EXPECT_TRUE(ReadGrammar({.grammar = (folder / "grammar.txt").string()}, lexicon, &grammar).empty());
  EXPECT_EQ(grammar.NumStates(), 3);
  EXPECT_TRUE(ReadGrammar({.words = (folder / "words.txt").string()}, lexicon, &grammar).empty());
}

}  // namespace
}  // namespace antiphon::pipeline
