// antiphon lm: an n-gram language model from text, and how well it predicts other text.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/file.h"
#include "base/gzip.h"
#include "base/utf8.h"
#include "command.h"
#include "decode/ngram_estimate.h"

namespace antiphon::app {
namespace {

struct LmCommandOptions {
  std::string text, out, vocabulary, arpa, evaluate;
  bool utterance_ids = false;
  decode::NgramEstimateOptions estimate;

  template <class V>
  void Visit(V& v) {
    v("text", text, "sentences to learn from, one per line");
    v("out", out, "ARPA file to write");
    v("utterance-ids", utterance_ids, "lines begin with an utterance id (Kaldi text), here and in --evaluate");
    v("vocabulary", vocabulary,
      "the words of the model, the first of each line (a lexicon will do); empty: all of the text");
    v("arpa", arpa, "evaluate this model instead of learning one");
    v("evaluate", evaluate, "sentences whose perplexity is printed");
    estimate.Visit(v);
  }
};

std::vector<std::vector<std::string>> ReadSentences(const std::string& path, bool utterance_ids) {
  std::vector<std::vector<std::string>> sentences;
  std::istringstream lines(ComposeLines(ReadMaybeGzipped(path), path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string word;
    if (utterance_ids && !(fields >> word)) continue;
    auto& sentence = sentences.emplace_back();
    while (fields >> word) sentence.push_back(word);
    if (sentence.empty() && !utterance_ids) sentences.pop_back();
  }
  return sentences;
}

std::vector<std::string> ReadVocabulary(const std::string& path) {
  std::vector<std::string> words;
  if (path.empty()) return words;
  for (const auto& line : ReadSentences(path, false)) words.push_back(line[0]);
  if (words.empty()) Throw<InputError>("'{}' holds no words", path);
  return words;
}

void LanguageModel(const LmCommandOptions& options, CommandContext& context) {
  if (options.text.empty() == options.arpa.empty())
    throw UsageError("give either --text to learn from or --arpa to evaluate");
  if (options.out.empty() && options.evaluate.empty()) throw UsageError("give --out to write to, or --evaluate");
  const decode::NgramModel model = options.arpa.empty()
                                       ? decode::EstimateNgram(ReadSentences(options.text, options.utterance_ids),
                                                               ReadVocabulary(options.vocabulary), options.estimate)
                                       : decode::NgramModel::ReadArpa(options.arpa);
  nlohmann::ordered_json result = {{"order", model.order()}, {"words", model.words().size()}};
  std::string counts;
  for (int order = 1; order <= model.order(); ++order) {
    counts += fmt::format("{}{} {}-grams", order > 1 ? ", " : "", model.NumNgrams(order), order);
  }
  if (!options.out.empty()) {
    WriteFileAtomically(options.out, model.ToArpa());
    context.Print("{} in {}", counts, options.out);
  }
  if (!options.evaluate.empty()) {
    const auto p = decode::MeasurePerplexity(model, ReadSentences(options.evaluate, options.utterance_ids));
    context.Print("perplexity {:.2f} over {} words in {} sentences, {} words ({:.2f} %) unknown", p.Perplexity(),
                  p.words, p.sentences, p.oov_words,
                  p.words > 0 ? 100.0 * static_cast<double>(p.oov_words) / static_cast<double>(p.words) : 0.0);
    result["perplexity"] = p.Perplexity();
    result["evaluated_words"] = p.words;
    result["unknown_words"] = p.oov_words;
  }
  context.SetResult(result.dump(2));
}

REGISTER_COMMAND(
    "lm", LmCommandOptions, LanguageModel,
    {.summary = "estimate an n-gram language model from text, or evaluate one",
     .description = "Interpolated Witten-Bell (small texts) or modified Kneser-Ney smoothing, written as ARPA.",
     .example = "antiphon lm --text data/train/text --utterance-ids --order 2 --vocabulary lang/lexicon.txt "
                "exp/lm.arpa\nantiphon lm --arpa exp/lm.arpa --evaluate data/dev/text --utterance-ids",
     .positionals = {"out"}});

}  // namespace
}  // namespace antiphon::app
