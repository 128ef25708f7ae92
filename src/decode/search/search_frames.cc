#include "decode/search/search_frames.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "decode/search/decoder.h"

namespace antiphon::decode {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// An order of a frame's tokens in which every epsilon link leads forward.
std::vector<int32_t> TopologicalOrder(const FrameTokens& frame) {
  const size_t count = frame.tokens.size();
  std::vector<int32_t> incoming(count, 0), order;
  std::vector<std::vector<int32_t>> outgoing(count);
  for (const Link& link : frame.epsilon) {
    ++incoming[link.to];
    outgoing[link.from].push_back(link.to);
  }
  for (size_t i = 0; i < count; ++i) {
    if (incoming[i] == 0) order.push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (const int32_t to : outgoing[order[i]]) {
      if (--incoming[to] == 0) order.push_back(to);
    }
  }
  CHECK_EQ(order.size(), count) << "epsilon cycle in the graph";
  return order;
}

}  // namespace

SearchFrames::SearchFrames(const GraphWalk& graph, const DecoderOptions& options, const WordBias* bias)
    : graph_(graph),
      bias_(bias),
      lattice_beam_(static_cast<float>(options.lattice_beam)),
      acoustic_scale_(options.acoustic_scale) {}

SearchFrames::SearchFrames(const GraphWalk& graph, const WordBias* bias, float lattice_beam, double acoustic_scale)
    : graph_(graph), bias_(bias), lattice_beam_(lattice_beam), acoustic_scale_(acoustic_scale) {}

void SearchFrames::Clear() {
  num_frames_ = -1;
  pruned_frames_ = 0;
}

FrameTokens& SearchFrames::AddFrame() {
  ++num_frames_;
  if (static_cast<size_t>(num_frames_) == frames_.size()) frames_.emplace_back();
  FrameTokens& frame = frames_[static_cast<size_t>(num_frames_)];
  if (!spare_.empty()) {
    std::swap(frame, spare_.back());
    spare_.pop_back();
  }
  frame.tokens.clear();
  frame.epsilon.clear();
  frame.emitting.clear();
  frame.offset = 0.0F;
  return frame;
}

void SearchFrames::RelaxEpsilons(FrameTokens& frame) {
  // Epsilon arcs have no cycles: the extra costs settle after as many rounds as the longest chain, mostly one or two.
  for (bool changed = true; changed;) {
    changed = false;
    for (auto link = frame.epsilon.rbegin(); link != frame.epsilon.rend(); ++link) {
      Token& from = frame.tokens[link->from];
      const Token& to = frame.tokens[link->to];
      const float extra = to.extra + std::max(0.0F, from.cost + ArcCost(from, link->arc) - to.cost);
      if (extra < from.extra && extra <= lattice_beam_) {
        from.extra = extra;
        changed = true;
      }
    }
  }
  std::erase_if(frame.epsilon, [&](const Link& link) {
    const Token& to = frame.tokens[link.to];
    const Token& from = frame.tokens[link.from];
    const float slack = from.cost + ArcCost(from, link.arc) - to.cost;
    return !(to.extra + slack <= lattice_beam_);
  });
}

bool SearchFrames::UpdateExtras(int f, float delta) {
  FrameTokens& frame = frames_[f];
  const FrameTokens& next = frames_[f + 1];
  extras_.clear();
  for (Token& token : frame.tokens) {
    extras_.push_back(token.extra);
    token.extra = kInfinity;
  }
  std::erase_if(frame.emitting, [&](const Link& link) {
    Token& from = frame.tokens[link.from];
    const Token& to = next.tokens[link.to];
    const float slack = from.cost - frame.offset + ArcCost(from, link.arc) + link.acoustic - to.cost;
    const float extra = to.extra + std::max(0.0F, slack);
    if (!(extra <= lattice_beam_)) return true;
    from.extra = std::min(from.extra, extra);
    return false;
  });
  RelaxEpsilons(frame);
  bool moved = false;
  for (size_t i = 0; i < extras_.size(); ++i) {
    const float extra = frame.tokens[i].extra;
    // Tokens to be dropped count as moved.
    if (extra != extras_[i] && !(std::abs(extra - extras_[i]) <= delta)) moved = true;
  }
  return moved;
}

void SearchFrames::DropTokens(int f) {
  FrameTokens& frame = frames_[f];
  new_index_.assign(frame.tokens.size(), -1);
  int32_t count = 0;
  for (size_t i = 0; i < frame.tokens.size(); ++i) {
    if (frame.tokens[i].extra == kInfinity) continue;
    new_index_[i] = count;
    frame.tokens[count++] = frame.tokens[i];
  }
  if (static_cast<size_t>(count) == frame.tokens.size()) return;
  frame.tokens.resize(count);
  for (Token& token : frame.tokens) {
    const bool within = token.arc != kNoArc && graph_.arcs()[token.arc].transition_id == 0;
    if (within) token.previous = new_index_[token.previous];
  }
  for (Link& link : frame.epsilon) {
    link.from = new_index_[link.from];
    link.to = new_index_[link.to];
  }
  for (Link& link : frame.emitting) link.from = new_index_[link.from];
  if (f > 0) {
    // Links to dropped tokens go when their own frame is pruned; they must not point at others meanwhile.
    std::erase_if(frames_[f - 1].emitting, [&](Link& link) {
      link.to = new_index_[link.to];
      return link.to < 0;
    });
  }
  if (f < num_frames_) {
    for (Token& token : frames_[f + 1].tokens) {
      const bool emitting = token.arc != kNoArc && graph_.arcs()[token.arc].transition_id != 0;
      if (emitting) token.previous = new_index_[token.previous];
    }
  }
}

void SearchFrames::PruneActive() {
  for (Token& token : back().tokens) token.extra = 0.0F;
  const float delta = lattice_beam_ * 0.1F;
  int f = num_frames_ - 1;
  while (f >= 0 && (UpdateExtras(f, delta) || f >= pruned_frames_)) --f;
  for (int g = std::max(f, 0); g < num_frames_; ++g) {
    DropTokens(g);
    if (g >= pruned_frames_) {
      spare_.push_back(Compact(frames_[g]));
    } else if (frames_[g].tokens.capacity() > 2 * frames_[g].tokens.size()) {
      Compact(frames_[g]);
    }
  }
  pruned_frames_ = num_frames_;
}

FrameTokens SearchFrames::Compact(FrameTokens& frame) {
  FrameTokens exact{{frame.tokens.begin(), frame.tokens.end()},
                    {frame.epsilon.begin(), frame.epsilon.end()},
                    {frame.emitting.begin(), frame.emitting.end()},
                    frame.offset};
  return std::exchange(frame, std::move(exact));
}

float SearchFrames::FinalCost(const Token& token, bool with_final_costs) const {
  if (!with_final_costs) return 0.0F;
  CHECK_GE(token.state, 0) << "the final cost of a state that was forgotten";
  const float cost = graph_.states()[token.state].final_cost;
  return bias_ == nullptr ? cost : cost + bias_->FinalCost(token.context);
}

void SearchFrames::PruneFinal() {
  if (num_frames_ <= 0) return;
  const bool with_final = ReachedFinal();
  float best = kInfinity;
  for (const Token& token : back().tokens) best = std::min(best, token.cost + FinalCost(token, with_final));
  for (Token& token : back().tokens) {
    token.extra = token.cost + FinalCost(token, with_final) - best;
    if (!(token.extra <= lattice_beam_)) token.extra = kInfinity;
  }
  RelaxEpsilons(back());
  for (int f = num_frames_ - 1; f >= 0; --f) UpdateExtras(f, 0.0F);
  for (int f = 0; f <= num_frames_; ++f) DropTokens(f);
}

bool SearchFrames::ReachedFinal() const {
  const auto& tokens = frames_[num_frames_].tokens;
  return std::any_of(tokens.begin(), tokens.end(), [&](const Token& t) { return std::isfinite(FinalCost(t, true)); });
}

double SearchFrames::FinalRelativeCost() const {
  double best = kInfinity, best_final = kInfinity;
  for (const Token& token : frames_[num_frames_].tokens) {
    best = std::min<double>(best, token.cost);
    best_final = std::min<double>(best_final, token.cost + FinalCost(token, true));
  }
  return best_final - best;
}

size_t SearchFrames::BestLast(bool with_final_costs) const {
  const auto& last = frames_[num_frames_].tokens;
  size_t best = 0;
  for (size_t i = 1; i < last.size(); ++i) {
    if (last[i].cost + FinalCost(last[i], with_final_costs) <
        last[best].cost + FinalCost(last[best], with_final_costs)) {
      best = i;
    }
  }
  return best;
}

LatticePath SearchFrames::BestPath(bool with_final_costs) const {
  LatticePath path;
  if (num_frames_ <= 0) return path;
  with_final_costs = with_final_costs && ReachedFinal();
  const auto& last = frames_[num_frames_].tokens;
  const size_t best = BestLast(with_final_costs);
  path.cost.graph = FinalCost(last[best], with_final_costs);
  int f = num_frames_;
  for (const Token* token = &last[best]; token->arc != kNoArc;) {
    const GraphArc& arc = graph_.arcs()[token->arc];
    if (arc.word != 0) path.words.push_back(arc.word);
    const bool emitting = arc.transition_id != 0;
    if (emitting) --f;
    const FrameTokens& before = frames_[f];
    const Token* const previous = &before.tokens[token->previous];
    const float arc_cost = ArcCost(*previous, token->arc);
    path.cost.graph += arc_cost;
    if (emitting) {
      path.alignment.push_back(arc.transition_id);
      // Some link leads there by this arc; its acoustic cost is what the costs differ by.
      path.cost.acoustic += static_cast<double>(token->cost) - previous->cost + before.offset - arc_cost;
    }
    token = previous;
  }
  path.cost.acoustic /= acoustic_scale_;
  std::reverse(path.words.begin(), path.words.end());
  std::reverse(path.alignment.begin(), path.alignment.end());
  return path;
}

int SearchFrames::CountFromEnd(bool with_final_costs, const std::function<bool(int32_t)>& test) const {
  if (num_frames_ <= 0) return 0;
  int f = num_frames_;
  const Token* token = &frames_[f].tokens[BestLast(with_final_costs && ReachedFinal())];
  while (token->arc != kNoArc) {
    const int32_t id = graph_.arcs()[token->arc].transition_id;
    if (id != 0) {
      if (!test(id)) break;
      --f;
    }
    token = &frames_[f].tokens[token->previous];
  }
  return num_frames_ - f;
}

std::vector<PathAnchor> SearchFrames::BestAnchors() const {
  std::vector<PathAnchor> anchors(static_cast<size_t>(num_frames_) + 1);
  auto index = static_cast<int32_t>(BestLast(false));
  int words_behind = 0;
  for (int f = num_frames_;;) {
    const Token& token = frames_[f].tokens[index];
    const bool start = token.arc == kNoArc;
    const bool emitting = !start && graph_.arcs()[token.arc].transition_id != 0;
    if (start || emitting) anchors[f] = {index, words_behind};
    if (start) break;
    if (graph_.arcs()[token.arc].word != 0) ++words_behind;
    if (emitting) --f;
    index = token.previous;
  }
  for (PathAnchor& anchor : anchors) anchor.num_words = words_behind - anchor.num_words;
  return anchors;
}

Lattice SearchFrames::CutBefore(int frame, int32_t token) {
  CHECK(frame > 0 && frame < num_frames_) << "cut at frame " << frame << " of " << num_frames_;
  SearchFrames before(graph_, bias_, lattice_beam_, acoustic_scale_);
  before.num_frames_ = frame;
  before.frames_.assign(std::make_move_iterator(frames_.begin()), std::make_move_iterator(frames_.begin() + frame));
  before.frames_.push_back(frames_[frame]);
  frames_.erase(frames_.begin(), frames_.begin() + frame);
  num_frames_ -= frame;
  pruned_frames_ = std::max(0, pruned_frames_ - frame);
  KeepDescendants(token);

  FrameTokens& last = before.back();
  last.emitting.clear();
  for (Token& t : last.tokens) t.extra = kInfinity;
  last.tokens[token].extra = 0.0F;
  before.RelaxEpsilons(last);
  for (int f = frame - 1; f >= 0; --f) before.UpdateExtras(f, 0.0F);
  for (int f = 0; f <= frame; ++f) before.DropTokens(f);
  return before.ToLattice(before.new_index_[token]);
}

void SearchFrames::KeepDescendants(int32_t start) {
  // Of each token of a frame: dropped, as it was, or with another best predecessor.
  enum class Fate : uint8_t { kDropped, kKept, kChanged };
  std::vector<Fate> before, now;
  for (int f = 0; f <= num_frames_; ++f) {
    FrameTokens& frame = frames_[f];
    now.assign(frame.tokens.size(), Fate::kDropped);
    std::vector<bool> entered(frame.tokens.size(), false);  // cost, previous and arc are of a way that is left
    const auto is_within = [&](const Token& t) { return t.arc != kNoArc && graph_.arcs()[t.arc].transition_id == 0; };
    const auto offer = [&](int32_t to, float cost, int32_t previous, uint32_t arc) {
      Token& token = frame.tokens[to];
      if (entered[to] && token.cost <= cost) return;
      entered[to] = true;
      token.cost = cost;
      token.previous = previous;
      token.arc = arc;
    };
    if (f == 0) {
      Token& token = frame.tokens[start];
      token.previous = -1;
      token.arc = kNoArc;
      entered[start] = true;
      now[start] = Fate::kKept;
    } else {
      for (size_t i = 0; i < frame.tokens.size(); ++i) {
        const Token& token = frame.tokens[i];
        entered[i] = !is_within(token) && before[token.previous] == Fate::kKept;
        if (entered[i]) now[i] = Fate::kKept;
      }
      FrameTokens& from_frame = frames_[f - 1];
      std::erase_if(from_frame.emitting, [&](const Link& link) { return before[link.from] == Fate::kDropped; });
      for (const Link& link : from_frame.emitting) {
        if (now[link.to] == Fate::kKept || is_within(frame.tokens[link.to])) continue;
        const Token& from = from_frame.tokens[link.from];
        offer(link.to, from.cost - from_frame.offset + ArcCost(from, link.arc) + link.acoustic, link.from, link.arc);
        now[link.to] = Fate::kChanged;
      }
    }
    // Tokens that an arc without a frame led to best, in an order in which their predecessors are done.
    const std::vector<int32_t> order = TopologicalOrder(frame);
    std::vector<std::vector<const Link*>> into(frame.tokens.size());
    for (const Link& link : frame.epsilon) into[link.to].push_back(&link);
    for (const int32_t i : order) {
      if (f == 0 && i == start) continue;
      Token& token = frame.tokens[i];
      if (now[i] == Fate::kKept) continue;
      if (is_within(token) && now[token.previous] == Fate::kKept) {
        now[i] = Fate::kKept;
        continue;
      }
      if (f > 0 && is_within(token)) {
        for (const Link& link : frames_[f - 1].emitting) {
          if (link.to != i) continue;
          const Token& from = frames_[f - 1].tokens[link.from];
          offer(i, from.cost - frames_[f - 1].offset + ArcCost(from, link.arc) + link.acoustic, link.from, link.arc);
        }
      }
      for (const Link* link : into[i]) {
        if (now[link->from] == Fate::kDropped) continue;
        const Token& from = frame.tokens[link->from];
        offer(i, from.cost + ArcCost(from, link->arc), link->from, link->arc);
      }
      if (entered[i]) now[i] = Fate::kChanged;
    }
    std::erase_if(frame.epsilon, [&](const Link& link) {
      return now[link.from] == Fate::kDropped || now[link.to] == Fate::kDropped || (f == 0 && link.to == start);
    });
    for (size_t i = 0; i < now.size(); ++i) {
      if (now[i] == Fate::kDropped) frame.tokens[i].extra = kInfinity;
    }
    before = now;
  }
  for (int f = 0; f <= num_frames_; ++f) DropTokens(f);
}

Lattice SearchFrames::ToLattice() const { return ToLattice(-1); }

Lattice SearchFrames::ToLattice(int32_t end) const {
  Lattice lattice;
  if (num_frames_ <= 0) return lattice;
  // Of a cut no final cost counts, and states of frames before the last may be forgotten.
  const bool with_final = end < 0 && ReachedFinal();
  std::vector<std::vector<int32_t>> ids(num_frames_ + 1);
  int32_t count = 0;
  for (int f = 0; f <= num_frames_; ++f) {
    ids[f].resize(frames_[f].tokens.size());
    for (const int32_t token : TopologicalOrder(frames_[f])) ids[f][token] = count++;
  }
  lattice.states.resize(count);
  for (int f = 0; f <= num_frames_; ++f) {
    const FrameTokens& frame = frames_[f];
    for (const Link& link : frame.epsilon) {
      const GraphArc& arc = graph_.arcs()[link.arc];
      lattice.states[ids[f][link.from]].arcs.push_back(
          {ids[f][link.to], arc.word, {ArcCost(frame.tokens[link.from], link.arc), 0.0}, {}});
    }
    for (const Link& link : frame.emitting) {
      const GraphArc& arc = graph_.arcs()[link.arc];
      lattice.states[ids[f][link.from]].arcs.push_back(
          {ids[f + 1][link.to],
           arc.word,
           {ArcCost(frame.tokens[link.from], link.arc), link.acoustic / acoustic_scale_},
           lattice.AddAlignment({{arc.transition_id}})});
    }
  }
  for (size_t i = 0; i < frames_[num_frames_].tokens.size(); ++i) {
    const Token& token = frames_[num_frames_].tokens[i];
    if (end >= 0 && static_cast<int32_t>(i) != end) continue;
    const float cost = end >= 0 ? 0.0F : FinalCost(token, with_final);
    if (!std::isfinite(cost)) continue;
    LatticeState& state = lattice.states[ids[num_frames_][i]];
    state.is_final = true;
    state.final_cost = {cost, 0.0};
  }
  return lattice;
}

}  // namespace antiphon::decode
