// An n-gram model of phone sequences, for the denominator of chain models and for words that a lexicon lacks: only what
// was seen, without smoothing or back-off arcs.
//
// A state is a history, the last few phones of a sequence (0 in front for its beginning). All histories of up to two
// phones that occur are states. Of those of three phones (order 4) only so many stay as are worth most: the others'
// counts go to their history of two phones, the one that costs least likelihood first, until max_long_histories are
// left. What follows in a state has its share of the state's counts as probability.
//
// Ids: phones from 1. State 0 is the beginning; no arc leads back to it.
// Threads: pure function. Errors: InputError if there are no phones at all.
// Source: Povey et al., Purely sequence-trained neural networks for ASR based on lattice-free MMI, Interspeech 2016.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/options.h"

namespace antiphon::hmm {

struct PhoneNgramOptions {
  int order = 4;
  int max_long_histories = 2000;
  template <class V>
  void Visit(V& v) {
    v("order", order, Range{2, 4}, "phones per n-gram of the denominator");
    v("long-histories", max_long_histories, Range{0, 1e6},
      "histories of three phones that are kept, those that gain most likelihood over two (order 4)");
  }
};

struct PhoneNgrams {
  struct Arc {
    int32_t phone;
    int32_t to;
    double probability;
    bool operator==(const Arc&) const = default;
  };
  struct State {
    std::vector<int32_t> history;  // oldest first; 0 is the beginning
    double end_probability = 0;
    std::vector<Arc> arcs;  // by phone
    bool operator==(const State&) const = default;
  };
  std::vector<State> states;
  double log_likelihood = 0;  // of the sequences that they were made of, nats
};

/// Sequences without phones do not count.
PhoneNgrams EstimatePhoneNgrams(std::span<const std::vector<int32_t>> sequences, const PhoneNgramOptions& options);

}  // namespace antiphon::hmm
