// Back-off weights that make the probabilities of an n-gram model sum to 1, for models made from others.
//
// Threads: pure functions. Source: Katz, IEEE ASSP 1987.
#pragma once

#include <vector>

#include "decode/lm/ngram.h"

namespace antiphon::decode {

/// Throws InputError naming a history whose n-grams have more than a probability of 1 in all, or 1-grams that have more
/// or less (by 1 %).
void RequireProbabilities(const NgramModel& model);

/// By node, what the history h of this n-gram (h, w) gives to w by backing off, as if it did not list it, without the
/// weight of h itself: p(w | h without its first word), or with fewer words where that is no history. 1 for 1-grams.
std::vector<double> ShorterProbabilities(const NgramModel& model, const std::vector<double>& backoffs);

/// The n-grams of `model` that `kept` names by node (with each those that it begins with), with new back-off weights
/// for the histories in `touched`, by node, shorter ones first, such that the probabilities behind each sum to 1. Words
/// stay all; the order is that of the longest n-gram.
NgramModel WithNewBackoffs(const NgramModel& model, const std::vector<bool>& kept, const std::vector<bool>& touched);

}  // namespace antiphon::decode
