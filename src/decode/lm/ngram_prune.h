// Makes a back-off n-gram model smaller with the least change of what it says.
//
// An n-gram whose removal changes the model's distribution by little (relative entropy, weighted by how often its
// history occurs by the model itself) goes, and the back-off weights of the histories that this touches are computed
// anew, so that the probabilities of every history sum to 1 as before. Longest n-grams are tried first; 1-grams, and
// n-grams with which a longer one that stays begins, stay. An n-gram that goes at one threshold goes at every larger
// one.
//
// Histories' frequencies come from the shorter n-grams, which Kneser-Ney smoothing makes for other use: models by
// Witten-Bell or Good-Turing are pruned better than those.
//
// Threads: pure functions. Errors: InputError for a model whose probabilities do not sum to 1.
// Source: Stolcke, Entropy-based pruning of backoff language models, DARPA Broadcast News Workshop 1998.
#pragma once

#include <vector>

#include "decode/lm/ngram.h"

namespace antiphon::decode {

/// By node of the model: the relative entropy in nats (old model against new one) of removing this n-gram alone; 0 for
/// the root and 1-grams.
std::vector<double> RemovalCosts(const NgramModel& model);

/// Without the n-grams whose removal raises the perplexity by less than the fraction `threshold` (1e-8, say); 0 removes
/// none. The result's order may be less.
NgramModel PruneNgrams(const NgramModel& model, double threshold);

}  // namespace antiphon::decode
