// The states of a chain model: one per phone, tied by a tree of left neighbours.
//
// The tree is grown from features at every step-th frame and the reference laid on that grid: the first output of a
// phone belongs to its entry, the others to its self-loop, each with a root of its own per phone. Silence is not split.
// Threads: as TreeStats: one thread per set of statistics. Errors: InputError if there are no statistics.
#pragma once

#include "base/options.h"
#include "chain/reference.h"
#include "hmm/hmm_model.h"
#include "hmm/tree_builder.h"
#include "hmm/tree_stats.h"

namespace antiphon::chain {

struct ChainTreeOptions {
  int num_leaves = 0;
  double min_frames = 50;
  template <class V>
  void Visit(V& v) {
    v("leaves", num_leaves, Range{0, 1 << 20}, "tied states to split to; 0: from the amount of speech");
    v("min-frames", min_frames, Range{1, 1e9}, "outputs that either side of a split must have");
  }
};

/// Adds the frames of an utterance: features [N, dim] at `shift`, `shift` + step … False if its phones are more than
/// the outputs, in which case nothing is added.
bool AddChainTreeStats(const Reference& reference, ConstMatrixView features, int shift, int step,
                       hmm::TreeStats* stats);

/// Transition probabilities are the topology's; chain training has no use for others.
hmm::HmmModel BuildChainModel(const hmm::PhoneSet& phones, const hmm::TreeStats& stats, const ChainTreeOptions& options,
                              hmm::TreeReport* report = nullptr);

}  // namespace antiphon::chain
