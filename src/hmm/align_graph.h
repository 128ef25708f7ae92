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

#include "base/options.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"

namespace antiphon::hmm {

/// Position of speech that is no part of the transcript, where pauses have −1.
inline constexpr int32_t kForeignSpeech = -2;

/// What it costs, in the search's nats, if text and speech do not agree.
struct GapCosts {
  double speech = 14.0;
  double text = 9.0;
  double word = 1.0;
  template <class V>
  void Visit(V& v) {
    v("speech", speech, Range{0.0, 1e6}, "cost of taking what follows as speech that the text lacks, in scaled nats");
    v("text", text, Range{0.0, 1e6}, "cost of leaving words of the text out, once for those that follow each other");
    v("word", word, Range{0.0, 1e6}, "and for each of these words");
  }
};

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
    int32_t word_position = -1;  // index into the transcript, −1 for a pause, kForeignSpeech
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

/// `words` are ids of `lexicon`, whose phones are the model's. No words: only a pause. With `gaps`, words may be left
/// out, and speech that is none of them may stand wherever a pause may: its states are those of a pause, scored as
/// class num_pdfs() of the model (hmm/any_speech_scores.h). The graph then grows with the square of the number of
/// words. `lexicon_scale`: factor on the costs of pauses and pronunciations (LexiconScale of hmm/aligner.h), not on
/// those of gaps.
AlignGraph BuildAlignGraph(const HmmModel& model, const Lexicon& lexicon, std::span<const int32_t> words,
                           double lexicon_scale, const GapCosts* gaps = nullptr);
/// The one way through these phones of the model, at least one: no variants, no pauses but those among them, and no
/// foreign speech.
AlignGraph BuildPhoneSequenceGraph(const HmmModel& model, std::span<const AlignGraph::Instance> phones);

}  // namespace antiphon::hmm
