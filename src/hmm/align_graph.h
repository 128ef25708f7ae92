// All ways to say a transcript, as a small graph of HMM states: pronunciation variants and optional pauses in full
// context.
//
// Nodes are emitting states; an arc carries the transition-id by which its source state is left (never a self-loop) and
// the cost of pauses and pronunciations. No epsilons. Transition probabilities are looked up while aligning, so that
// they may change. Threads: const data. Errors: InputError if the transcript cannot be said at all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"

namespace antiphon::hmm {

struct AlignGraph {
  struct Node {
    int32_t transition_state = 0;
    int32_t pdf_id = 0;       // of the frame that enters
    int32_t loop_pdf_id = 0;  // of frames that stay
    int32_t self_loop = 0;    // transition-id, 0 if there is none
    int32_t instance = 0;     // index into instances
    int32_t first_arc = 0;    // arcs of a node lie together; the next node's first_arc ends them
  };
  struct Arc {
    int32_t to = 0;             // node, or kEnd
    int32_t transition_id = 0;  // leaves the source node's state
    float cost = 0;             // −log
  };
  struct Instance {
    int32_t phone = 0;
    int32_t word_position = -1;  // index into the transcript, −1 for a pause
  };
  struct Start {
    int32_t node = 0;
    float cost = 0;
  };
  static constexpr int32_t kEnd = -1;

  std::vector<Node> nodes;  // one more at the end, for first_arc
  std::vector<Arc> arcs;
  std::vector<Instance> instances;
  std::vector<Start> starts;

  int num_nodes() const { return static_cast<int>(nodes.size()) - 1; }
};

/// `words` are ids of `lexicon`, whose phones are the model's. No words: only a pause.
AlignGraph BuildAlignGraph(const HmmModel& model, const Lexicon& lexicon, std::span<const int32_t> words);

}  // namespace antiphon::hmm
