// Grows the decision tree that ties the states of phones in context (senones).
//
// One root per base phone and pdf class; silence is not split. The split with the largest gain anywhere is made until
// the number of leaves is reached; then leaves of one root whose separation gains less than the last split are tied
// again. Phones with too little data share the root of a richer phone, so that every possible context has a pdf-id.
// Determinism: ties are decided by position, question and node order. Errors: InputError if there are no statistics.
#pragma once

#include <cstdint>
#include <vector>

#include "base/options.h"
#include "hmm/phone_set.h"
#include "hmm/topology.h"
#include "hmm/tree.h"
#include "hmm/tree_stats.h"

namespace antiphon::hmm {

struct TreeOptions {
  int num_leaves = 2000;
  double min_frames = 100;
  bool tie_leaves = true;
  template <class V>
  void Visit(V& v) {
    v("leaves", num_leaves, Range{0, 1 << 20},
      "tied states to split to (0: from the amount of data); tying afterwards leaves some 10-20 % fewer");
    v("min-frames", min_frames, Range{1, 1e9}, "frames that either side of a split must have");
    v("tie-leaves", tie_leaves, "tie leaves of one root again that gain less apart than the last split");
  }
};

struct TreeReport {
  double num_frames = 0;
  double gain = 0;        // of all splits, nats
  double tying_loss = 0;  // nats
  int num_splits = 0;
  int num_tied = 0;
  int num_leaves = 0;  // pdf-ids in the end
  double initial_log_likelihood = 0;
  double final_log_likelihood = 0;
};

/// A triphone tree (width 3), or one of left biphones (width 2), for which no statistic has a right phone. questions as
/// from FindQuestions.
ContextTree BuildTree(const TreeStats& stats, const PhoneSet& phones, const Topology& topology,
                      const std::vector<std::vector<int32_t>>& questions, const TreeOptions& options,
                      TreeReport* report = nullptr, int width = 3);

}  // namespace antiphon::hmm
