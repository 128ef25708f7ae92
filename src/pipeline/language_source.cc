#include "pipeline/language_source.h"

#include <filesystem>
#include <iterator>
#include <sstream>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/utf8.h"
#include "decode/lm/ngram_fst.h"
#include "hmm/graph/openfst.h"
#include "pipeline/words_to_add.h"

namespace antiphon::pipeline {
namespace {

std::vector<std::string> Read(const LanguageSource& source, const hmm::Lexicon& lexicon, fst::StdVectorFst* grammar) {
  const auto lookup = [&](std::string_view word) {
    const int32_t id = lexicon.FindWord(word);
    return id > 0 ? id : -1;
  };
  if (!source.arpa.empty()) {
    return decode::NgramToFst(decode::NgramModel::ReadArpa(source.arpa), lookup, lexicon.backoff_word(), grammar);
  }
  if (!source.grammar.empty()) return decode::GrammarFromText(source.grammar, lookup, grammar);
  std::istringstream list(ComposeLines(ReadFile(source.words), source.words));
  std::vector<std::string> words{std::istream_iterator<std::string>(list), {}};
  for (std::string& word : words) word = AsTheLexiconWrites(lexicon, word);
  return WithContext([&] { return decode::WordLoopFst(words, lookup, grammar); },
                     [&] { return fmt::format("'{}'", source.words); });
}

}  // namespace

std::vector<std::string> ReadGrammar(const LanguageSource& source, const hmm::Lexicon& lexicon,
                                     fst::StdVectorFst* grammar) {
  const std::vector<std::string> left_out = Read(source, lexicon, grammar);
  if (!left_out.empty()) {
    const std::string known = AsTheLexiconWrites(lexicon, left_out[0]);
    log::Warn("{} words of the language model have no pronunciation and cannot be recognised, the first: {}{}",
              left_out.size(), left_out[0],
              known == left_out[0] ? "" : fmt::format(" (the lexicon has '{}'; write text as it does)", known));
  }
  return left_out;
}

std::string DescribeFile(const std::string& kind, const std::string& file) {
  return fmt::format("{} {} {:016x}", kind, std::filesystem::path(file).filename().string(),
                     Checksum(MappedFile(file).bytes()));
}

std::string Describe(const LanguageSource& source) {
  if (!source.arpa.empty()) return DescribeFile("arpa", source.arpa);
  if (!source.words.empty()) return DescribeFile("words", source.words);
  return DescribeFile("grammar", source.grammar);
}

}  // namespace antiphon::pipeline
