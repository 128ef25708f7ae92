#include "pipeline/written_words.h"

#include <algorithm>

#include "base/error.h"

namespace antiphon::pipeline {

std::shared_ptr<const written::WrittenForm> LoadWrittenForm(const std::string& given,
                                                            const std::vector<std::string>& of_bundle,
                                                            const decode::Graph& graph) {
  if (given.empty()) return nullptr;
  const bool bundles = given == kBundlesWritten;
  if (bundles && of_bundle.empty()) {
    throw UsageError(
        "--written bundle: the bundle has no written form; name one (english, a folder, a file), or make "
        "the bundle with --written");
  }
  return std::make_shared<const written::WrittenForm>(
      written::WrittenForm::Load(bundles ? of_bundle : written::FilesOf(given), written::IsInCapitals(graph.words())));
}

std::vector<TimedToken> WrittenWords(const written::WrittenForm& form, std::span<const TimedToken> words, bool ended) {
  std::vector<written::SpokenWord> spoken;
  for (const TimedToken& word : words) spoken.push_back({word.text, word.start_s, word.end_s});
  std::vector<TimedToken> tokens;
  for (const written::WrittenToken& token : form.Write(spoken, ended).tokens) {
    const auto its_words = words.subspan(static_cast<size_t>(token.first_word), static_cast<size_t>(token.num_words));
    const double confidence = std::ranges::min(its_words, {}, &TimedToken::confidence).confidence;
    tokens.push_back({token.text, its_words.front().start_s, its_words.back().end_s, confidence});
  }
  return tokens;
}

std::string TextOf(std::span<const TimedToken> tokens) {
  std::string text;
  for (const TimedToken& token : tokens) text += (text.empty() ? "" : " ") + token.text;
  return text;
}

}  // namespace antiphon::pipeline
