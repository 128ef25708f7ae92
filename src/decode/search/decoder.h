// Viterbi beam search over a graph, frame by frame, that keeps what lies within a lattice beam.
//
// Token passing: one token per graph state and frame, with its best cost. A frame's tokens are expanded if they lie
// within `beam` of the best, and not beyond the max_active-th best (nor fewer than min_active). The best token is
// expanded first, so that the next frame's cutoff is tight from the start. Tokens are visited in the order in which
// they were made: the result does not depend on memory addresses, on threads, or on how the frames come in chunks.
//
// Costs are −log: graph costs as they stand, acoustic costs −log-likelihood × acoustic_scale. They are kept relative to
// the best token of each frame, so that long utterances lose no precision.
//
//   Decoder decoder(graph, options);
//   decoder.Advance(scores);           // as often as frames come in
//   decoder.Finish();
//   const LatticePath best = decoder.BestPath();
//
// Threads: one per decoder; decoders share the graph.
// Source: Povey et al., Generating exact lattices in the WFST framework, ICASSP 2012; Young et al., Token passing,
// 1989.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/options.h"
#include "base/score_source.h"
#include "decode/graph/graph.h"
#include "decode/lattice/lattice.h"
#include "decode/search/word_bias.h"

namespace antiphon::hmm {
class HmmModel;
}

namespace antiphon::decode {

struct DecoderOptions {
  double beam = 13.0;
  double lattice_beam = 8.0;
  double acoustic_scale = 0;
  int max_active = 7000;
  int min_active = 200;
  int prune_interval = 25;
  int graph_cache_mb = 256;

  template <class V>
  void Visit(V& v) {
    v("beam", beam, Range{0.1, 1e9}, "how much worse than the best a hypothesis may become, in nats");
    v("lattice-beam", lattice_beam, Range{0.0, 1e9}, "how much worse than the best a lattice path may be, in nats");
    v("acoustic-scale", acoustic_scale, Range{0.0, 100.0},
      "weight of acoustic scores against the graph's; 0: as the model was trained for, 1 for chain models, 0.1 for "
      "others");
    v("max-active", max_active, Range{1, 1e9}, "most hypotheses that are followed in a frame");
    v("min-active", min_active, Range{0, 1e9}, "hypotheses that are followed whatever the beam");
    v("prune-interval", prune_interval, Range{1, 1e6}, "frames between clean-ups of the lattice");
    v("graph-cache", graph_cache_mb, Range{1, 1e6},
      "MB of memory in which a search keeps what it has met of a graph made with --on-the-fly");
  }
};

/// The weight that the options ask for, or the model's own. A Decoder by itself knows no model: for one the options
/// must say it.
double AcousticScale(const DecoderOptions& options, const hmm::HmmModel& model);

/// Where the best hypothesis enters a frame.
struct PathAnchor {
  int32_t token = 0;  // of the search, until it goes on
  int num_words = 0;  // that the path has given before
};

struct DecoderStats {
  int64_t frames = 0;
  int64_t tokens_expanded = 0;
  int64_t scores_requested = 0;  // of a source that is not dense
};

class Decoder {
 public:
  /// `graph` must outlive the decoder, and so must `bias`; null: all words as the graph has them.
  Decoder(const Graph& graph, const DecoderOptions& options, const WordBias* bias = nullptr);
  ~Decoder();
  Decoder(Decoder&&) noexcept;
  Decoder& operator=(Decoder&&) noexcept;

  /// Back to the state after construction, keeping the memory.
  void Restart();
  /// Takes all frames that are ready, at most `max_frames` of them (negative: no limit). Throws ShapeError if the
  /// source has another number of pdf-ids than the graph's model, InputError for scores that are not numbers.
  void Advance(ScoreSource& scores, int max_frames = -1);
  /// No more frames: final costs count from now on, and the lattice is pruned exactly.
  void Finish();

  int num_frames() const;
  /// Whether a hypothesis stands at a sentence end now. If none does, all are taken as ended.
  bool ReachedFinal() const;
  /// Best cost of a hypothesis at a sentence end minus the best cost of any; infinite if there is none. For
  /// endpointing.
  double FinalRelativeCost() const;

  /// The best hypothesis so far; after Finish the best that ends. Empty without frames.
  LatticePath BestPath() const;
  /// Frames at the end of BestPath whose transition-ids all hold `test`; with `ended`, of the best path if nothing more
  /// were said: at a sentence end, unless none stands there.
  int CountFromEnd(bool ended, const std::function<bool(int32_t transition_id)>& test) const;

  /// Where BestPath enters each frame, from 0 to num_frames(); before Finish.
  std::vector<PathAnchor> BestAnchors() const;
  /// The lattice of the frames before `frame`, of what goes through the anchor there; the search goes on behind it, and
  /// its frames count from there. Words and costs of the best path stay what they are. Before Finish.
  Lattice CutBefore(int frame, const PathAnchor& anchor);

  /// All surviving hypotheses at the level of frames; after Finish. Empty without frames.
  Lattice RawLattice() const;

  const DecoderStats& stats() const;

 private:
  class Search;
  std::unique_ptr<Search> search_;
};

}  // namespace antiphon::decode
