#include "g2p/train.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "decode/lm/ngram_estimate.h"
#include "decode/lm/ngram_prune.h"
#include "g2p/model_parts.h"

namespace antiphon::g2p {
namespace {

constexpr int kMostPhones = 8;
constexpr double kShareToCut = 0.995;

// Sorts as the units do, so that the language model, which sorts its words, has them in their order.
std::string NameOf(size_t unit) { return fmt::format("{:08}", unit); }

int ChooseMaxPhones(const std::vector<SpellingPair>& pairs) {
  for (int most = 2; most < kMostPhones; ++most) {
    const auto cut = std::count_if(pairs.begin(), pairs.end(), [&](const auto& pair) { return CanBeCut(pair, most); });
    if (static_cast<double>(cut) >= kShareToCut * static_cast<double>(pairs.size())) return most;
  }
  return kMostPhones;
}

// In the numbers that letters and phones have, or get.
SpellingPair PairOf(const Entry& entry, Symbols& letters, Symbols& phones) {
  SpellingPair pair;
  for (const std::string& letter : LettersOf(entry.word)) pair.letters.push_back(letters.Add(letter));
  for (const std::string& phone : entry.phones) pair.phones.push_back(phones.Add(phone));
  return pair;
}

decode::NgramModel EstimateUnits(const UnitAlignment& alignment, const TrainOptions& options) {
  std::vector<std::string> vocabulary;
  for (size_t unit = 0; unit < alignment.units.size(); ++unit) vocabulary.push_back(NameOf(unit));
  std::vector<std::vector<std::string>> sentences;
  for (const std::vector<int32_t>& sequence : alignment.sequences) {
    if (sequence.empty()) continue;
    auto& sentence = sentences.emplace_back();
    for (const int32_t unit : sequence) sentence.push_back(vocabulary[static_cast<size_t>(unit)]);
  }
  decode::NgramModel ngram =
      decode::EstimateNgram(sentences, vocabulary, {.order = options.order, .method = "kneser-ney"});
  return options.prune > 0 ? decode::PruneNgrams(ngram, options.prune) : std::move(ngram);
}

}  // namespace

Trained Train(std::span<const Entry> entries, const TrainOptions& options, int num_threads) {
  Model::Parts parts;
  TrainReport report;
  Symbols letters, phones;  // of all, also of those from which nothing is learned
  std::vector<SpellingPair> all;
  std::set<std::string> words;
  for (const Entry& entry : entries) {
    all.push_back(PairOf(entry, letters, phones));
    words.insert(entry.word);
  }
  report.max_phones = options.max_phones > 0 ? options.max_phones : ChooseMaxPhones(all);
  std::vector<SpellingPair> pairs;
  std::set<std::string> uncut;
  for (size_t i = 0; i < all.size(); ++i) {
    if (CanBeCut(all[i], report.max_phones)) {
      pairs.push_back(PairOf(entries[i], parts.letters, parts.phones));
    } else {
      uncut.insert(entries[i].word);
    }
  }
  report.uncut.assign(uncut.begin(), uncut.end());
  if (pairs.empty()) {
    Throw<InputError>("there are no pronunciations to learn from: {}",
                      words.empty() ? "no word is spelt as it is said"
                                    : "all words have more phones than their letters can stand for");
  }
  log::Info("letters and phones: aligning {} pronunciations of {} words", pairs.size(), words.size());
  UnitAlignment alignment = AlignUnits(
      pairs, {.max_letters = options.max_letters, .max_phones = report.max_phones, .iterations = options.iterations},
      num_threads);
  log::Info("n-grams: {} units of letters and phones", alignment.units.size());
  const decode::NgramModel ngram = EstimateUnits(alignment, options);
  parts.ngram = UnitNgram(ngram);
  parts.units = std::move(alignment.units);
  report.words = std::ssize(words);
  report.pronunciations = std::ssize(all);
  parts.description = nlohmann::json{{"words", report.words},           {"pronunciations", report.pronunciations},
                                     {"order", options.order},          {"max_letters", options.max_letters},
                                     {"max_phones", report.max_phones}, {"prune", options.prune}}
                          .dump();
  return {Model(std::move(parts)), std::move(report)};
}

}  // namespace antiphon::g2p
