// The tokens and links of all frames of a search, and their pruning from behind.
//
// Frame f holds the tokens after f acoustic frames. A token's *extra cost* is how much worse than the best complete
// (or, before the end, best so far) hypothesis the best one through it is; what exceeds the lattice beam is dropped.
// Before the end extra costs are lower bounds, so that dropping early never takes what the final pruning would keep.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "decode/graph/graph_walk.h"
#include "decode/lattice/lattice.h"
#include "decode/search/word_bias.h"

namespace antiphon::decode {

struct DecoderOptions;
struct PathAnchor;

inline constexpr uint32_t kNoArc = std::numeric_limits<uint32_t>::max();

struct Token {
  int32_t state;
  float cost;  // relative to the offsets of the frames before
  float extra;
  int32_t previous;  // best predecessor: in the frame before, or in this one if `arc` takes no frame; −1 at the start
  uint32_t arc;      // graph arc from there
  int32_t context;   // of the words before, for a bias
};

struct Link {
  int32_t from;
  int32_t to;
  uint32_t arc;
  float acoustic;  // scaled cost
};

struct FrameTokens {
  std::vector<Token> tokens;
  std::vector<Link> epsilon;   // within the frame
  std::vector<Link> emitting;  // to the next frame
  float offset = 0.0F;         // subtracted from costs on the way to the next frame
};

class SearchFrames {
 public:
  /// `graph` and `bias` must outlive this.
  SearchFrames(const GraphWalk& graph, const DecoderOptions& options, const WordBias* bias);

  struct ArcStep {
    float cost;
    int32_t context;  // behind the arc
  };
  /// The graph's cost of an arc, and what a word on it costs or earns behind `context`.
  ArcStep Follow(int32_t context, const GraphArc& arc) const {
    if (bias_ == nullptr || arc.word == 0) return {arc.cost, context};
    const WordBias::Step step = bias_->Next(context, arc.word);
    return {arc.cost + step.cost, step.context};
  }

  void Clear();
  FrameTokens& AddFrame();
  FrameTokens& back() { return frames_[static_cast<size_t>(num_frames_)]; }
  FrameTokens& BeforeLast() { return frames_[static_cast<size_t>(num_frames_) - 1]; }
  int num_frames() const { return num_frames_; }

  /// Drops what cannot be within the lattice beam any more, from the last frame back to where nothing changes.
  void PruneActive();
  /// The same exactly, with final costs.
  void PruneFinal();

  /// Exchanges the ids of states and arcs for those that a collection gives.
  template <class KeepState, class KeepArc>
  void Renumber(const KeepState& keep_state, const KeepArc& keep_arc) {
    for (int f = 0; f <= num_frames_; ++f) {
      for (Token& token : frames_[static_cast<size_t>(f)].tokens) {
        // Those of frames before are not followed any more.
        token.state = f == num_frames_ ? keep_state(token.state) : -1;
        if (token.arc != kNoArc) token.arc = keep_arc(token.arc);
      }
      for (Link& link : frames_[static_cast<size_t>(f)].epsilon) link.arc = keep_arc(link.arc);
      for (Link& link : frames_[static_cast<size_t>(f)].emitting) link.arc = keep_arc(link.arc);
    }
  }

  bool ReachedFinal() const;
  double FinalRelativeCost() const;
  LatticePath BestPath(bool with_final_costs) const;
  /// Frames at the end of the best hypothesis so far whose transition-ids hold `test`, up to the first that does not.
  int CountFromEnd(bool with_final_costs, const std::function<bool(int32_t transition_id)>& test) const;
  Lattice ToLattice() const;

  /// Of the best hypothesis so far, for frames 0 … num_frames().
  std::vector<PathAnchor> BestAnchors() const;
  /// Decides for all hypotheses that go through this token, the best one's anchor at `frame`: the lattice of the frames
  /// before it is returned, ending in the token, and the search goes on behind it as from a start. What does not come
  /// from the token is dropped; costs stay what they are. 0 < frame < num_frames().
  Lattice CutBefore(int frame, int32_t token);

 private:
  SearchFrames(const GraphWalk& graph, const WordBias* bias, float lattice_beam, double acoustic_scale);

  // Recomputes extra costs of frame f from those of f + 1 and drops links; true if some extra cost moved by more than
  // delta.
  bool UpdateExtras(int f, float delta);
  void RelaxEpsilons(FrameTokens& frame);
  // Removes tokens with infinite extra cost and renumbers.
  void DropTokens(int f);
  // Moves a pruned frame to memory of its size and gives the roomy memory, which serves the next frames.
  static FrameTokens Compact(FrameTokens& frame);
  float FinalCost(const Token& token, bool with_final_costs) const;
  size_t BestLast(bool with_final_costs) const;
  // Keeps of frame 0 what `token` reaches, and so on; costs of tokens whose best predecessor goes are found anew.
  void KeepDescendants(int32_t token);
  // `end`: the only final token of the last frame, without a cost; −1: as the graph says.
  Lattice ToLattice(int32_t end) const;

  float ArcCost(const Token& from, uint32_t arc) const { return Follow(from.context, graph_.arcs()[arc]).cost; }

  const GraphWalk& graph_;
  const WordBias* bias_;
  float lattice_beam_;
  double acoustic_scale_;
  std::vector<FrameTokens> frames_;  // the first num_frames_ + 1 are in use
  int num_frames_ = -1;
  int pruned_frames_ = 0;           // these were pruned at least once
  std::vector<FrameTokens> spare_;  // memory for new frames
  std::vector<int32_t> new_index_;  // scratch
  std::vector<float> extras_;       // scratch
};

}  // namespace antiphon::decode
