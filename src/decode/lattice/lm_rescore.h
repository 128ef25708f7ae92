// Puts another language model in the place of the one that the search used: graph costs − old + new.
//
// The first pass then needs a small graph only. Costs of words that one of the models lacks stay as they are, and its
// history starts anew there. Where the search backed off although the longer n-gram was there, a little of the old cost
// remains.
//
// Threads: const methods may run together.
// Source: Ljolje, Pereira, Riley, Efficient general lattice generation and rescoring, Eurospeech 1999.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decode/lattice/lattice.h"
#include "decode/lm/ngram.h"

namespace antiphon::decode {

class LmRescorer {
 public:
  /// `words` by word id, as in Graph::words().
  LmRescorer(NgramModel old_model, NgramModel new_model, const std::vector<std::string>& words);

  /// Of a determinised lattice; the result has each word sequence once, too. States multiply by the new model's
  /// histories.
  Lattice Rescore(const Lattice& lattice) const { return Rescore(lattice, {}, true); }
  /// The same of a piece of a sentence: `said` are the words before it since the sentence began; `ends`: the sentence
  /// is over behind it.
  Lattice Rescore(const Lattice& lattice, std::span<const int32_t> said, bool ends) const;

 private:
  struct Histories {
    int32_t old_state;
    int32_t new_state;
    auto operator<=>(const Histories&) const = default;
  };
  struct Step {
    double cost;  // added to the graph cost
    Histories next;
  };
  Step Follow(const Histories& from, int32_t word) const;
  double EndCost(const Histories& at) const;

  NgramModel old_model_, new_model_;
  std::vector<int32_t> old_ids_, new_ids_;  // by word id; −1 unknown
};

}  // namespace antiphon::decode
