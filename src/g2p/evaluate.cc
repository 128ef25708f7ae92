#include "g2p/evaluate.h"

#include <limits>
#include <map>

#include "base/edit_distance.h"
#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"

namespace antiphon::g2p {

Evaluation Evaluate(const Model& model, std::span<const Entry> entries, const PronounceOptions& options,
                    int num_threads) {
  std::map<std::string, std::vector<const std::vector<std::string>*>> variants;
  for (const Entry& entry : entries) variants[entry.word].push_back(&entry.phones);
  const std::vector<std::pair<std::string, std::vector<const std::vector<std::string>*>>> words(variants.begin(),
                                                                                                variants.end());
  Evaluation evaluation;
  PronounceOptions best = options;
  best.nbest = 1;
  using Best = std::vector<std::string>;  // empty: unknown letters
  ParallelInOrder<Best>(
      words.size(), num_threads,
      [&](size_t i) {
        try {
          return model.Pronounce(words[i].first, best)[0].phones;
        } catch (const InputError&) {
          return Best();
        }
      },
      [&](size_t i, Best&& phones) {
        double least = std::numeric_limits<double>::infinity();
        size_t errors = 0, length = 0;
        for (const auto* variant : words[i].second) {
          const size_t distance =
              EditDistance(std::span<const std::string>(phones), std::span<const std::string>(*variant));
          const double rate = static_cast<double>(distance) / static_cast<double>(variant->size());
          if (rate >= least) continue;
          least = rate;
          errors = distance;
          length = variant->size();
        }
        ++evaluation.words;
        evaluation.wrong_words += errors > 0 ? 1 : 0;
        evaluation.phone_errors += static_cast<int64_t>(errors);
        evaluation.phones += static_cast<int64_t>(length);
        if (phones.empty()) evaluation.unknown.push_back(words[i].first);
      });
  return evaluation;
}

std::pair<std::vector<Entry>, std::vector<Entry>> KeepApart(std::span<const Entry> entries, double held_out) {
  std::pair<std::vector<Entry>, std::vector<Entry>> parts;
  constexpr double kAll = 18446744073709551616.0;  // 2^64
  for (const Entry& entry : entries) {
    const bool apart = static_cast<double>(Checksum(entry.word)) < held_out * kAll;
    (apart ? parts.first : parts.second).push_back(entry);
  }
  return parts;
}

}  // namespace antiphon::g2p
