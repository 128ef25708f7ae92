// Estimates n-gram language models from text.
//
// witten-bell: P(w|h) = (c(hw) + T(h)·P(w|h′)) / (c(h) + T(h)), T the number of different words behind h; needs no
// tuning and works on tiny texts. kneser-ney: interpolated modified Kneser-Ney with discounts D1, D2, D3+ from counts
// of counts, lower orders from continuation counts (n-grams that begin with <s> keep their own). The lowest order is
// interpolated with the uniform distribution over the vocabulary, so that every word of it has a probability. Both are
// written as back-off models: every history's probabilities sum to 1.
//
// Text: sentences without <s> and </s>. Words outside a given vocabulary become <unk> if that is in it; else n-grams
// over them are left out. Deterministic. Memory: about 24 bytes per running word and order. Source: Witten and Bell,
// IEEE Trans. IT 1991; Chen and Goodman, Computer Speech and Language 1999.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "decode/lm/ngram.h"

namespace antiphon::decode {

struct NgramEstimateOptions {
  int order = 3;
  std::string method = "witten-bell";
  int min_count = 1;

  template <class V>
  void Visit(V& v) {
    v("order", order, Range{1, NgramModel::kMaxOrder}, "words per n-gram");
    v("method", method, OneOf{{"witten-bell", "kneser-ney"}}, "smoothing; witten-bell for small texts");
    v("min-count", min_count, Range{1, 1000}, "drop n-grams of order 3 and above that are rarer (witten-bell only)");
  }
};

/// `vocabulary` may be empty: then it is the words of the text. Throws InputError for a text without sentences.
NgramModel EstimateNgram(const std::vector<std::vector<std::string>>& sentences,
                         const std::vector<std::string>& vocabulary, const NgramEstimateOptions& options);

}  // namespace antiphon::decode
