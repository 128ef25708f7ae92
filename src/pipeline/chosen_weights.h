// What a development set says of a recogniser, weights.toml: weights of language model and words that were chosen on
// it, and what contrast its speech has.
#pragma once

#include <filesystem>
#include <string>

#include "base/options.h"
#include "decode/lattice/lattice.h"

namespace antiphon::pipeline {

struct ChosenWeights {
  double lm_weight = 0.0;
  double word_penalty = 0.0;
  double risk_scale = 0.0;
  double contrast = 0.0;

  template <class V>
  void Visit(V& v) {
    v("lm-weight", lm_weight, Range{1e-6, 1e6}, "weight of the language model (1 / acoustic scale)");
    v("word-penalty", word_penalty, Range{-1e6, 1e6}, "cost per word");
    v("risk-scale", risk_scale, Range{0, 1000},
      "scale of the probabilities by which the words with the fewest expected errors are found; 0: the likeliest path");
    v("contrast", contrast, Range{0, 1e6},
      "of utterances, the median, in nats (decode/search/contrast.h); 0: not known");
  }
  decode::LatticeWeights weights() const { return {1.0 / lm_weight, word_penalty, risk_scale}; }
};

/// Throws InputError if one of the first two is missing, UsageError with file:line for keys and values that cannot be.
ChosenWeights ReadChosenWeights(const std::filesystem::path& file);
/// `remark` is for whoever looks into the file.
void WriteChosenWeights(const std::filesystem::path& file, const ChosenWeights& chosen, const std::string& remark);

}  // namespace antiphon::pipeline
