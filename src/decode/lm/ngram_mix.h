// Linear interpolation of n-gram models: p(w|h) = Σ weight_i · p_i(w|h).
//
// The vocabulary is the union of the models'; a word that a model lacks has probability 0 in it, and a history is, for
// a model, what follows its last word that the model lacks. The mixture itself needs all models at hand; written as one
// back-off model it has every n-gram that one of them has, with the mixture's probability, and back-off weights such
// that every history's probabilities sum to 1. N-grams that none of them has get a little more or less than in the
// mixture.
//
// Threads: pure functions. Errors: InputError for models without </s>.
// Source: Jelinek and Mercer, Interpolated estimation of Markov source parameters from sparse data, 1980; as one model:
// Stolcke, SRILM, ICSLP 2002.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "decode/lm/ngram.h"

namespace antiphon::decode {

/// `weights`: one per model, summing to 1.
NgramModel MixNgrams(std::span<const NgramModel> models, std::span<const double> weights);

/// Of the mixture itself. Words that no model has are out of vocabulary.
PerplexityResult MeasureMixture(std::span<const NgramModel> models, std::span<const double> weights,
                                const std::vector<std::vector<std::string>>& sentences);

struct MixtureWeights {
  std::vector<double> weights;
  int iterations = 0;
};

/// The weights that give `sentences` the highest probability, by expectation-maximisation from equal ones. Throws
/// InputError for a text of which the models know no word and that has no sentence.
MixtureWeights EstimateMixtureWeights(std::span<const NgramModel> models,
                                      const std::vector<std::vector<std::string>>& sentences);

}  // namespace antiphon::decode
