// Learns a grapheme-to-phoneme model from the entries of a lexicon.
//
// Entries are cut into units of letters and phones (unit_aligner.h); a modified Kneser-Ney n-gram over the units is the
// model. Deterministic; the number of threads changes nothing.
// Errors: InputError if there is nothing to learn from.
// Source: Bisani and Ney, Speech Communication 2008; Chen and Goodman 1999.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "decode/lm/ngram.h"
#include "g2p/entries.h"
#include "g2p/model.h"

namespace antiphon::g2p {

struct TrainOptions {
  int order = 6;
  int max_letters = 2;
  int max_phones = 0;
  int iterations = 10;
  double prune = 0.0;

  template <class V>
  void Visit(V& v) {
    v("order", order, Range{1, decode::NgramModel::kMaxOrder}, "units per n-gram");
    v("max-letters", max_letters, Range{1, 4}, "letters that stand for one phone together, at most");
    v("max-phones", max_phones, Range{0, 8},
      "phones that one letter stands for, at most; 0: as many as 99.5 % of the entries need, at least 2");
    v("iterations", iterations, Range{1, 100},
      "of expectation-maximisation, to find which letters stand for which phones");
    v("prune", prune, Range{0.0, 1.0},
      "drop n-grams that raise the perplexity by less than this fraction, for a smaller model (1e-7, say); 0: none");
  }
};

struct TrainReport {
  int64_t words = 0;
  int64_t pronunciations = 0;
  int max_phones = 0;              // of a letter
  std::vector<std::string> uncut;  // words with a pronunciation that has more phones than its letters can stand for
};

struct Trained {
  Model model;
  TrainReport report;
};

Trained Train(std::span<const Entry> entries, const TrainOptions& options, int num_threads);

}  // namespace antiphon::g2p
