#include "decode/search/decoder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "base/check.h"
#include "base/error.h"
#include "decode/graph/graph_walk.h"
#include "decode/search/search_frames.h"
#include "decode/search/token_map.h"
#include "hmm/hmm_model.h"

namespace antiphon::decode {
namespace {

constexpr float kUnbounded = std::numeric_limits<float>::infinity();

}  // namespace

class Decoder::Search {
 public:
  Search(const Graph& graph, const DecoderOptions& options, const WordBias* bias)
      : graph_(graph),
        options_(options),
        scale_(static_cast<float>(options.acoustic_scale)),
        walk_(graph),
        frames_(walk_, options, bias) {
    Restart();
  }

  void Restart() {
    frames_.Clear();
    graph_memory_ = static_cast<size_t>(options_.graph_cache_mb) << 20;
    if (walk_.memory() > graph_memory_) walk_.Forget();
    stats_ = {};
    finished_ = false;
    ClearSlots();
    frames_.AddFrame();
    FrameTokens& first = frames_.back();
    first.tokens.push_back({walk_.start(), 0.0F, 0.0F, -1, kNoArc, 0});
    SlotOf(walk_.start(), 0) = 0;
    CloseEpsilons(first, kUnbounded);
  }

  void Advance(ScoreSource& scores, int max_frames) {
    CHECK(!finished_) << "Advance after Finish";
    if (scores.num_pdfs() != graph_.num_pdfs()) {
      Throw<ShapeError>(
          "the scores have {} classes, the graph's model has {}; use the model that the graph was built for",
          scores.num_pdfs(), graph_.num_pdfs());
    }
    const int ready = scores.num_frames_ready();
    for (int taken = 0; frames_.num_frames() < ready && taken != max_frames; ++taken) {
      Step(scores);
      if (frames_.num_frames() % options_.prune_interval == 0) {
        frames_.PruneActive();
        if (walk_.memory() > graph_memory_) ForgetGraph();
      }
    }
  }

  void Finish() {
    CHECK(!finished_) << "Finish twice";
    finished_ = true;
    frames_.PruneFinal();
  }

  Lattice CutBefore(int frame, const PathAnchor& anchor) {
    CHECK(!finished_) << "CutBefore after Finish";
    return frames_.CutBefore(frame, anchor.token);
  }

  const SearchFrames& frames() const { return frames_; }
  const DecoderStats& stats() const { return stats_; }
  bool finished() const { return finished_; }

 private:
  struct Cutoff {
    float cost;        // tokens beyond are not expanded
    float next_beam;   // for the frame that follows
    int32_t best = 0;  // token
  };

  Cutoff FindCutoff(const std::vector<Token>& tokens) {
    Cutoff cutoff{kUnbounded, static_cast<float>(options_.beam), 0};
    for (size_t i = 1; i < tokens.size(); ++i) {
      if (tokens[i].cost < tokens[cutoff.best].cost) cutoff.best = static_cast<int32_t>(i);
    }
    const float best = tokens[cutoff.best].cost;
    const auto beam = static_cast<float>(options_.beam);
    cutoff.cost = best + beam;
    const auto max_active = static_cast<size_t>(options_.max_active);
    const auto min_active = static_cast<size_t>(options_.min_active);
    if (tokens.size() <= min_active) {
      cutoff.cost = kUnbounded;
      return cutoff;
    }
    // Where counts decide, there is room above them, so that the next frame does not starve.
    constexpr float kSlack = 0.5F;
    const auto limit_by_count = [&](size_t count) {
      cutoff.cost = NthCost(tokens, count);
      cutoff.next_beam = cutoff.cost - best + kSlack;
    };
    if (tokens.size() > max_active && NthCost(tokens, max_active) < cutoff.cost) {
      limit_by_count(max_active);
    } else if (min_active > 0 && NthCost(tokens, min_active) > cutoff.cost) {
      limit_by_count(min_active);
    }
    return cutoff;
  }

  float NthCost(const std::vector<Token>& tokens, size_t n) {
    costs_.clear();
    for (const Token& token : tokens) costs_.push_back(token.cost);
    std::nth_element(costs_.begin(), costs_.begin() + static_cast<int64_t>(n), costs_.end());
    return costs_[n];
  }

  // What no hypothesis needs of a graph that is put together as it is reached.
  void ForgetGraph() {
    walk_.Collect([&](const auto& keep_state, const auto& keep_arc) { frames_.Renumber(keep_state, keep_arc); });
    // Where hypotheses alone need most of it, time would go by with nothing else; they end with the utterance.
    graph_memory_ = std::max(graph_memory_, 2 * walk_.memory());
  }

  // A dense row of log-likelihoods for the arcs that may be followed.
  const float* Scores(ScoreSource& source, int frame, const std::vector<Token>& tokens, float cutoff) {
    if (const auto dense = source.DenseFrame(frame); !dense.empty()) return dense.data();
    gathered_.resize(static_cast<size_t>(graph_.num_pdfs()));
    wanted_mark_.assign(gathered_.size(), false);
    wanted_.clear();
    for (const Token& token : tokens) {
      if (token.cost > cutoff) continue;
      const GraphState state = walk_.Expanded(token.state);
      for (uint32_t a = state.emitting_begin; a < state.end; ++a) {
        const int32_t pdf = graph_.pdf_of_transition()[walk_.arcs()[a].transition_id];
        if (wanted_mark_[pdf]) continue;
        wanted_mark_[pdf] = true;
        wanted_.push_back(pdf);
      }
    }
    std::sort(wanted_.begin(), wanted_.end());
    source.Request(frame, wanted_);
    for (const int32_t pdf : wanted_) gathered_[pdf] = source.LogLikelihood(frame, pdf);
    stats_.scores_requested += static_cast<int64_t>(wanted_.size());
    return gathered_.data();
  }

  void Step(ScoreSource& source) {
    const int frame = frames_.num_frames();
    FrameTokens& now = frames_.back();
    const Cutoff cutoff = FindCutoff(now.tokens);
    const float* const scores = Scores(source, frame, now.tokens, cutoff.cost);
    now.offset = now.tokens[cutoff.best].cost;
    if (!std::isfinite(now.offset)) Throw<InputError>("frame {} has scores that are not finite numbers", frame);
    FrameTokens& next = frames_.AddFrame();
    ClearSlots();
    next_cutoff_ = kUnbounded;
    FrameTokens& from = frames_.BeforeLast();
    TightenCutoff(from.tokens[cutoff.best], from.offset, scores, cutoff.next_beam);
    for (size_t i = 0; i < from.tokens.size(); ++i) {
      Prefetch(from.tokens, i);
      if (from.tokens[i].cost <= cutoff.cost) Expand(from, static_cast<int32_t>(i), scores, cutoff.next_beam, next);
    }
    if (next.tokens.empty()) ExpandAll(source, frame, from, next);
    CloseEpsilons(next, next_cutoff_);
    ++stats_.frames;
  }

  // The token of a state behind a context; few hypotheses are inside a hotword.
  int32_t& SlotOf(int32_t state, int32_t context) {
    if (context == 0) return map_[state];
    const auto key = static_cast<int64_t>(context) << 32 | state;
    return biased_.try_emplace(key, -1).first->second;
  }
  void ClearSlots() {
    map_.Clear();
    biased_.clear();
  }

  // Where all that is within the beam ends (a grammar may allow one sentence only), worse hypotheses go on.
  void ExpandAll(ScoreSource& source, int frame, FrameTokens& from, FrameTokens& next) {
    const float* const scores = Scores(source, frame, from.tokens, kUnbounded);
    next_cutoff_ = kUnbounded;
    for (size_t i = 0; i < from.tokens.size(); ++i) {
      Expand(from, static_cast<int32_t>(i), scores, static_cast<float>(options_.beam), next);
    }
    if (next.tokens.empty()) {
      Throw<InputError>(
          "no hypothesis goes on after frame {}: the grammar allows nothing more, or the scores are not finite numbers",
          frame);
    }
  }

  // The graph does not fit into the cache, and which of its states come is known ahead.
  void Prefetch(const std::vector<Token>& tokens, size_t i) const {
    constexpr size_t kStatesAhead = 12, kArcsAhead = 6;
    if (i + kStatesAhead < tokens.size()) __builtin_prefetch(&walk_.states()[tokens[i + kStatesAhead].state]);
    if (i + kArcsAhead < tokens.size()) {
      __builtin_prefetch(walk_.arcs() + walk_.states()[tokens[i + kArcsAhead].state].emitting_begin);
    }
  }

  void TightenCutoff(const Token& best, float offset, const float* scores, float beam) {
    const GraphState state = walk_.Expanded(best.state);
    for (uint32_t a = state.emitting_begin; a < state.end; ++a) {
      const GraphArc& arc = walk_.arcs()[a];
      const float acoustic = -scale_ * scores[graph_.pdf_of_transition()[arc.transition_id]];
      const float cost = best.cost - offset + frames_.Follow(best.context, arc).cost + acoustic + beam;
      if (cost < next_cutoff_) next_cutoff_ = cost;
    }
  }

  void Expand(FrameTokens& from, int32_t index, const float* scores, float beam, FrameTokens& to) {
    const GraphState state = walk_.Expanded(from.tokens[index].state);
    const float base = from.tokens[index].cost - from.offset;
    const int32_t context = from.tokens[index].context;
    const GraphArc* const arcs = walk_.arcs();
    const int32_t* const pdfs = graph_.pdf_of_transition().data();
    ++stats_.tokens_expanded;
    for (uint32_t a = state.emitting_begin; a < state.end; ++a) {
      const GraphArc& arc = arcs[a];
      const float acoustic = -scale_ * scores[pdfs[arc.transition_id]];
      const SearchFrames::ArcStep step = frames_.Follow(context, arc);
      const float cost = base + step.cost + acoustic;
      // Also false where the score is not a number.
      if (!(cost < next_cutoff_)) continue;
      if (cost + beam < next_cutoff_) next_cutoff_ = cost + beam;
      const int32_t next_state = walk_.Next(a);
      int32_t& slot = SlotOf(next_state, step.context);
      if (slot < 0) {
        slot = static_cast<int32_t>(to.tokens.size());
        to.tokens.push_back({next_state, cost, 0.0F, index, a, step.context});
      } else if (cost < to.tokens[slot].cost) {
        Token& token = to.tokens[slot];
        token.cost = cost;
        token.previous = index;
        token.arc = a;
      }
      from.emitting.push_back({index, slot, a, acoustic});
    }
  }

  // Follows the arcs that take no frame; the graph has no cycle of them, so that this ends.
  void CloseEpsilons(FrameTokens& frame, float cutoff) {
    std::vector<Token>& tokens = frame.tokens;
    queue_.clear();
    for (size_t i = tokens.size(); i-- > 0;) {
      if (walk_.MayHaveEpsilons(tokens[i].state)) queue_.push_back(static_cast<int32_t>(i));
    }
    while (!queue_.empty()) {
      const int32_t index = queue_.back();
      queue_.pop_back();
      const float base = tokens[index].cost;
      if (base > cutoff) continue;
      const GraphState state = walk_.Expanded(tokens[index].state);
      for (uint32_t a = state.epsilon_begin; a < state.emitting_begin; ++a) {
        const GraphArc& arc = walk_.arcs()[a];
        const SearchFrames::ArcStep step = frames_.Follow(tokens[index].context, arc);
        const float cost = base + step.cost;
        if (!(cost < cutoff)) continue;
        const int32_t next_state = walk_.Next(a);
        int32_t& slot = SlotOf(next_state, step.context);
        if (slot < 0) {
          slot = static_cast<int32_t>(tokens.size());
          tokens.push_back({next_state, cost, 0.0F, index, a, step.context});
        } else if (cost < tokens[slot].cost) {
          tokens[slot] = {next_state, cost, 0.0F, index, a, step.context};
        } else {
          continue;
        }
        if (walk_.MayHaveEpsilons(next_state)) queue_.push_back(slot);
      }
    }
    // Links only now, when every token has its best cost.
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i].cost > cutoff || !walk_.MayHaveEpsilons(tokens[i].state)) continue;
      const GraphState state = walk_.Expanded(tokens[i].state);
      for (uint32_t a = state.epsilon_begin; a < state.emitting_begin; ++a) {
        const GraphArc& arc = walk_.arcs()[a];
        const SearchFrames::ArcStep step = frames_.Follow(tokens[i].context, arc);
        if (!(tokens[i].cost + step.cost < cutoff)) continue;
        frame.epsilon.push_back({static_cast<int32_t>(i), SlotOf(walk_.Next(a), step.context), a, 0.0F});
      }
    }
  }

  const Graph& graph_;
  DecoderOptions options_;
  float scale_;
  GraphWalk walk_;
  size_t graph_memory_ = 0;  // beyond, what no hypothesis needs is forgotten
  SearchFrames frames_;
  TokenMap map_;
  std::unordered_map<int64_t, int32_t> biased_;  // only looked up
  DecoderStats stats_;
  bool finished_ = false;
  float next_cutoff_ = 0.0F;
  // Scratch, kept between frames.
  std::vector<float> costs_, gathered_;
  std::vector<int32_t> queue_, wanted_;
  std::vector<uint8_t> wanted_mark_;
};

double AcousticScale(const DecoderOptions& options, const hmm::HmmModel& model) {
  if (options.acoustic_scale > 0) return options.acoustic_scale;
  return model.topology().IsChain() ? 1.0 : 0.1;
}

Decoder::Decoder(const Graph& graph, const DecoderOptions& options, const WordBias* bias)
    : search_(std::make_unique<Search>(graph, options, bias)) {
  CHECK_GT(options.acoustic_scale, 0) << "of a decoder that knows no model";
}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;

void Decoder::Restart() { search_->Restart(); }
void Decoder::Advance(ScoreSource& scores, int max_frames) { search_->Advance(scores, max_frames); }
void Decoder::Finish() { search_->Finish(); }
int Decoder::num_frames() const { return search_->frames().num_frames(); }
bool Decoder::ReachedFinal() const { return search_->frames().ReachedFinal(); }
double Decoder::FinalRelativeCost() const { return search_->frames().FinalRelativeCost(); }
const DecoderStats& Decoder::stats() const { return search_->stats(); }
LatticePath Decoder::BestPath() const { return search_->frames().BestPath(search_->finished()); }

int Decoder::CountFromEnd(bool ended, const std::function<bool(int32_t)>& test) const {
  return search_->frames().CountFromEnd(ended || search_->finished(), test);
}
std::vector<PathAnchor> Decoder::BestAnchors() const { return search_->frames().BestAnchors(); }
Lattice Decoder::CutBefore(int frame, const PathAnchor& anchor) { return search_->CutBefore(frame, anchor); }

Lattice Decoder::RawLattice() const {
  CHECK(search_->finished()) << "RawLattice before Finish";
  return search_->frames().ToLattice();
}

}  // namespace antiphon::decode
