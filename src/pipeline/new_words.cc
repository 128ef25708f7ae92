#include "pipeline/new_words.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "pipeline/bundle.h"

namespace antiphon::pipeline {

NewWords PronounceNewWords(const hmm::Lexicon& lexicon, std::span<const std::string> words, const g2p::Model& model,
                           const g2p::PronounceOptions& options, int num_threads) {
  std::set<std::string> missing;
  for (const std::string& word : words) {
    if (lexicon.FindWord(word) == 0) missing.insert(word);
  }
  const std::vector<std::string> to_say(missing.begin(), missing.end());
  const bool with_probability = std::any_of(lexicon.entries().begin(), lexicon.entries().end(),
                                            [](const hmm::Pronunciation& entry) { return entry.cost != 0; });
  NewWords added;
  using Result = std::pair<std::vector<g2p::Guess>, std::string>;
  ParallelInOrder<Result>(
      to_say.size(), num_threads,
      [&](size_t i) {
        try {
          return Result(model.Pronounce(to_say[i], options), "");
        } catch (const InputError& e) {
          return Result({}, e.what());
        }
      },
      [&](size_t i, Result&& result) {
        const auto& [guesses, reason] = result;
        if (guesses.empty()) {
          added.refused.push_back(reason);
          return;
        }
        added.words.push_back(to_say[i]);
        for (const g2p::Guess& guess : guesses) {
          added.lines += to_say[i];
          if (with_probability) {
            added.lines += fmt::format(" {:.9f}", std::max(1e-9, guess.probability / guesses[0].probability));
          }
          added.lines += fmt::format(" {}\n", fmt::join(guess.phones, " "));
        }
      });
  return added;
}

hmm::Lexicon WithNewWords(const hmm::Lexicon& lexicon, const NewWords& added, const std::string& source) {
  return hmm::Lexicon::Parse(lexicon.ToText() + added.lines, fmt::format("lexicon with words by '{}'", source),
                             lexicon.options(), lexicon.phones());
}

g2p::Model OpenG2p(const std::string& place) {
  if (!IsBundle(place)) return g2p::Model::Load(place);
  const BundleParts parts = OpenBundle(place);
  if (parts.g2p.empty()) {
    Throw<InputError>("'{}' cannot pronounce new words; antiphon bundle --g2p puts in what can", place);
  }
  return g2p::Model::Load(parts.g2p);
}

void RequirePhones(const g2p::Model& model, const hmm::Lexicon& lexicon, const std::string& source) {
  std::set<std::string> known;
  for (const std::vector<int32_t>& group : lexicon.phones().BaseGroups()) {
    known.insert(lexicon.phones().BaseName(group[0]));
  }
  for (const std::string& phone : model.phones()) {
    if (known.contains(phone)) continue;
    Throw<InputError>(
        "'{}' pronounces words with the phone '{}', which the recogniser does not have: train it on the recogniser's "
        "lexicon (antiphon g2p train)",
        source, phone);
  }
}

}  // namespace antiphon::pipeline
