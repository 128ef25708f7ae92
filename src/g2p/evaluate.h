// How well a grapheme-to-phoneme model pronounces words that are known.
//
// A word is right if its best pronunciation is one of those in the lexicon. Phone errors are the least edit distance to
// any of them, relative to that one's length. A word with unknown letters is wrong, with all its phones.
// Threads: words in parallel; the result does not depend on how many.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "g2p/entries.h"
#include "g2p/model.h"

namespace antiphon::g2p {

struct Evaluation {
  int64_t words = 0;
  int64_t wrong_words = 0;
  int64_t phones = 0;
  int64_t phone_errors = 0;
  std::vector<std::string> unknown;  // words with letters that the model does not know
  double word_error() const { return words > 0 ? static_cast<double>(wrong_words) / static_cast<double>(words) : 0.0; }
  double phone_error() const {
    return phones > 0 ? static_cast<double>(phone_errors) / static_cast<double>(phones) : 0.0;
  }
};

Evaluation Evaluate(const Model& model, std::span<const Entry> entries, const PronounceOptions& options,
                    int num_threads);

/// Parts words at random: those that are kept apart (about the share `held_out`), and the rest. All
/// pronunciations of a word go the same way; which way depends on its letters alone.
std::pair<std::vector<Entry>, std::vector<Entry>> KeepApart(std::span<const Entry> entries, double held_out);

}  // namespace antiphon::g2p
