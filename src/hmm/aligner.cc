#include "hmm/aligner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace antiphon::hmm {
namespace {

constexpr int32_t kNone = -1;

class Search {
 public:
  Search(const HmmModel& model, const AlignGraph& graph, ScoreSource& scores, const AlignOptions& options)
      : graph_(graph), scores_(scores), acoustic_scale_(options.acoustic_scale), slot_(2 * graph.nodes.size(), kNone) {
    const TransitionModel& transitions = model.transitions();
    for (int n = 0; n < graph.num_nodes(); ++n) {
      const AlignGraph::Node& node = graph.nodes[static_cast<size_t>(n)];
      const bool can_stay = node.self_loop != 0;
      stay_.push_back(can_stay ? options.self_loop_scale * static_cast<double>(transitions.LogProb(node.self_loop))
                               : 0);
      const int32_t phone = graph.instances[static_cast<size_t>(node.instance)].phone;
      bonus_.push_back(model.phones().IsSilence(phone) ? options.acoustic_scale * std::log(options.silence_boost) : 0);
      const double leave =
          can_stay ? options.self_loop_scale * static_cast<double>(transitions.LeaveLogProb(node.transition_state)) : 0;
      for (int32_t a = node.first_arc; a < graph.nodes[static_cast<size_t>(n) + 1].first_arc; ++a) {
        const AlignGraph::Arc& arc = graph.arcs[static_cast<size_t>(a)];
        const auto choose = static_cast<double>(transitions.LogProbWithoutSelfLoop(arc.transition_id));
        leave_.push_back(leave + options.transition_scale * choose - static_cast<double>(arc.cost));
      }
    }
  }

  /// False if no path within the beam reaches the end.
  bool Run(double beam) {
    tokens_.clear();
    visits_.clear();
    for (const AlignGraph::Start& start : graph_.starts)
      Reach(start.node, kNone, kNone, -static_cast<double>(start.cost), 0);
    Emit(0, beam);
    for (int t = 1; t < scores_.num_frames_ready() && !tokens_.empty(); ++t) {
      Advance();
      Emit(t, beam);
    }
    return FindEnd();
  }

  /// The path that Run found.
  Alignment Trace() const {
    Alignment alignment;
    const int num_frames = scores_.num_frames_ready();
    alignment.transition_ids.resize(static_cast<size_t>(num_frames));
    int end = num_frames;
    int32_t arc = end_arc_;
    int32_t instance = kNone;
    for (int32_t v = end_token_.visit; v != kNone; v = visits_[static_cast<size_t>(v)].previous) {
      const Visit& visit = visits_[static_cast<size_t>(v)];
      const AlignGraph::Node& node = graph_.nodes[static_cast<size_t>(visit.node)];
      for (int t = visit.begin_frame; t < end; ++t) alignment.transition_ids[static_cast<size_t>(t)] = node.self_loop;
      alignment.transition_ids[static_cast<size_t>(visit.begin_frame)] =
          graph_.arcs[static_cast<size_t>(arc)].transition_id;
      AddToPhones(visit, end, &instance, &alignment.phones);
      end = visit.begin_frame;
      arc = visit.arc;
    }
    std::reverse(alignment.phones.begin(), alignment.phones.end());
    alignment.log_likelihood = end_token_.acoustic;
    alignment.score = end_score_;
    return alignment;
  }

 private:
  // A token stays with its visit while it loops; entering a state begins a new one.
  struct Visit {
    int32_t previous;
    int32_t node;
    int32_t begin_frame;
    int32_t arc;  // by which the state was entered
  };
  struct Token {
    int32_t node;
    int32_t visit;  // of the state it is in; before Emit of the state it came from
    int32_t arc;    // before Emit: kNone for a self-loop
    double score;
    double acoustic;
  };

  // Those who stay and those who enter compete at once where they emit alike, else after they have emitted.
  size_t SlotOf(int32_t node, bool stays) const {
    const AlignGraph::Node& n = graph_.nodes[static_cast<size_t>(node)];
    return 2 * static_cast<size_t>(node) + static_cast<size_t>(stays && n.loop_pdf_id != n.pdf_id);
  }
  static bool Stays(const Token& token) { return token.arc == kNone && token.visit != kNone; }
  int32_t PdfOf(const Token& token) const {
    const AlignGraph::Node& node = graph_.nodes[static_cast<size_t>(token.node)];
    return Stays(token) ? node.loop_pdf_id : node.pdf_id;
  }

  void Reach(int32_t node, int32_t visit, int32_t arc, double score, double acoustic) {
    int32_t& slot = slot_[SlotOf(node, arc == kNone && visit != kNone)];
    if (slot == kNone) {
      slot = static_cast<int32_t>(next_.size());
      next_.push_back({node, visit, arc, score, acoustic});
    } else if (score > next_[static_cast<size_t>(slot)].score) {
      next_[static_cast<size_t>(slot)] = {node, visit, arc, score, acoustic};
    }
  }

  void Advance() {
    for (const Token& token : tokens_) {
      const auto n = static_cast<size_t>(token.node);
      if (graph_.nodes[n].self_loop != 0) Reach(token.node, token.visit, kNone, token.score + stay_[n], token.acoustic);
      for (int32_t a = graph_.nodes[n].first_arc; a < graph_.nodes[n + 1].first_arc; ++a) {
        const int32_t to = graph_.arcs[static_cast<size_t>(a)].to;
        if (to != AlignGraph::kEnd)
          Reach(to, token.visit, a, token.score + leave_[static_cast<size_t>(a)], token.acoustic);
      }
    }
  }

  void Emit(int frame, double beam) {
    const std::span<const float> dense = scores_.DenseFrame(frame);
    if (dense.empty()) {
      pdfs_.clear();
      for (const Token& token : next_) pdfs_.push_back(PdfOf(token));
      scores_.Request(frame, pdfs_);
    }
    double best = -std::numeric_limits<double>::infinity();
    for (Token& token : next_) {
      const int32_t pdf = PdfOf(token);
      const auto score =
          static_cast<double>(dense.empty() ? scores_.LogLikelihood(frame, pdf) : dense[static_cast<size_t>(pdf)]);
      if (std::isnan(score)) Throw<InputError>("the score of frame {} and pdf-id {} is not a number", frame, pdf);
      token.score += acoustic_scale_ * score + bonus_[static_cast<size_t>(token.node)];
      token.acoustic += score;
      best = std::max(best, token.score);
      slot_[SlotOf(token.node, Stays(token))] = kNone;
    }
    tokens_.clear();
    for (Token& token : next_) {
      if (!(token.score >= best - beam)) continue;
      if (token.arc != kNone || token.visit == kNone) {
        visits_.push_back({token.visit, token.node, frame, token.arc});
        token.visit = static_cast<int32_t>(visits_.size()) - 1;
      }
      tokens_.push_back(token);
    }
    next_.clear();
  }

  bool FindEnd() {
    end_score_ = -std::numeric_limits<double>::infinity();
    for (const Token& token : tokens_) {
      const auto n = static_cast<size_t>(token.node);
      for (int32_t a = graph_.nodes[n].first_arc; a < graph_.nodes[n + 1].first_arc; ++a) {
        if (graph_.arcs[static_cast<size_t>(a)].to != AlignGraph::kEnd) continue;
        const double score = token.score + leave_[static_cast<size_t>(a)];
        if (score > end_score_) {
          end_score_ = score;
          end_token_ = token;
          end_arc_ = a;
        }
      }
    }
    return std::isfinite(end_score_);
  }

  // Visits come from the last to the first; those of one phone instance follow each other.
  void AddToPhones(const Visit& visit, int end, int32_t* instance, std::vector<AlignedPhone>* phones) const {
    const int32_t its_instance = graph_.nodes[static_cast<size_t>(visit.node)].instance;
    if (its_instance != *instance) {
      const AlignGraph::Instance& info = graph_.instances[static_cast<size_t>(its_instance)];
      phones->push_back({info.phone, 0, 0, info.word_position});
      *instance = its_instance;
    }
    phones->back().begin_frame = visit.begin_frame;
    phones->back().num_frames += end - visit.begin_frame;
  }

  const AlignGraph& graph_;
  ScoreSource& scores_;
  double acoustic_scale_;
  std::vector<double> bonus_;  // by node, per frame
  std::vector<double> stay_;   // by node
  std::vector<double> leave_;  // by arc
  std::vector<int32_t> slot_;  // by SlotOf: index into next_
  std::vector<Token> tokens_;
  std::vector<Token> next_;
  std::vector<Visit> visits_;
  std::vector<int32_t> pdfs_;
  Token end_token_{};
  int32_t end_arc_ = kNone;
  double end_score_ = 0;
};

// Frames that the shortest path takes.
int FewestFrames(const AlignGraph& graph) {
  std::vector<int> steps(graph.nodes.size(), 0);
  std::vector<int32_t> open;
  for (const AlignGraph::Start& start : graph.starts) {
    if (steps[static_cast<size_t>(start.node)] != 0) continue;
    steps[static_cast<size_t>(start.node)] = 1;
    open.push_back(start.node);
  }
  for (size_t i = 0; i < open.size(); ++i) {
    const auto n = static_cast<size_t>(open[i]);
    for (int32_t a = graph.nodes[n].first_arc; a < graph.nodes[n + 1].first_arc; ++a) {
      const int32_t to = graph.arcs[static_cast<size_t>(a)].to;
      if (to == AlignGraph::kEnd) return steps[n];
      if (steps[static_cast<size_t>(to)] != 0) continue;
      steps[static_cast<size_t>(to)] = steps[n] + 1;
      open.push_back(to);
    }
  }
  return std::numeric_limits<int>::max();
}

}  // namespace

std::string AlignStatusName(AlignStatus status) {
  switch (status) {
    case AlignStatus::kOk:
      return "aligned";
    case AlignStatus::kRetried:
      return "aligned with the retry beam";
    case AlignStatus::kTooShort:
      return "too short for its transcript";
    case AlignStatus::kNoPath:
      return "no path within the beam";
  }
  return "";
}

double LexiconScale(const HmmModel& model, const AlignOptions& options) {
  return model.topology().IsChain() ? options.acoustic_scale : 1.0;
}

Alignment Align(const HmmModel& model, const AlignGraph& graph, ScoreSource& scores, const AlignOptions& options) {
  Alignment alignment;
  if (scores.num_frames_ready() < FewestFrames(graph)) {
    alignment.status = AlignStatus::kTooShort;
    return alignment;
  }
  Search search(model, graph, scores, options);
  bool found = search.Run(options.beam);
  const bool retry = !found && options.retry_beam > options.beam;
  if (retry) found = search.Run(options.retry_beam);
  if (!found) return alignment;
  alignment = search.Trace();
  alignment.status = retry ? AlignStatus::kRetried : AlignStatus::kOk;
  return alignment;
}

Alignment Align(const HmmModel& model, const Lexicon& lexicon, std::span<const int32_t> words, ScoreSource& scores,
                const AlignOptions& options) {
  return Align(model, BuildAlignGraph(model, lexicon, words, LexiconScale(model, options)), scores, options);
}

namespace {

// Through the phone state by state, never back.
void AppendStates(const HmmModel& model, std::span<const int32_t> window, std::vector<int32_t>* ids) {
  const TopologyEntry& entry = model.topology().Entry(window[static_cast<size_t>(model.tree().central())]);
  for (size_t s = 0; s + 1 < entry.size();) {
    size_t best = entry[s].transitions.size();
    for (size_t t = 0; t < entry[s].transitions.size(); ++t) {
      const int to = entry[s].transitions[t].to;
      if (to > static_cast<int>(s) && (best == entry[s].transitions.size() || to < entry[s].transitions[best].to))
        best = t;
    }
    CHECK_LT(best, entry[s].transitions.size());
    ids->push_back(
        model.transitions().TransitionId(model.TransitionState(window, static_cast<int>(s)), static_cast<int>(best)));
    s = static_cast<size_t>(entry[s].transitions[best].to);
  }
}

}  // namespace

Alignment AlignEqually(const HmmModel& model, const Lexicon& lexicon, std::span<const int32_t> words, int num_frames,
                       Rng& rng) {
  std::vector<AlignedPhone> phones = {{lexicon.optional_silence(), 0, 0, -1}};
  for (size_t w = 0; w < words.size(); ++w) {
    const auto entries = lexicon.PronunciationsOf(words[w]);
    for (const int32_t phone : entries[rng.Below(entries.size())].phones)
      phones.push_back({phone, 0, 0, static_cast<int32_t>(w)});
  }
  phones.push_back(phones.front());
  std::vector<int32_t> states;  // leaving transition-ids
  std::vector<size_t> phone_of;
  for (size_t p = 0; p < phones.size(); ++p) {
    const int32_t window[3] = {p > 0 ? phones[p - 1].phone : 0, phones[p].phone,
                               p + 1 < phones.size() ? phones[p + 1].phone : 0};
    AppendStates(model, model.Window(window), &states);
    phone_of.resize(states.size(), p);
  }
  Alignment alignment;
  const auto n = static_cast<int64_t>(states.size());
  if (num_frames < n) {
    alignment.status = AlignStatus::kTooShort;
    return alignment;
  }
  alignment.status = AlignStatus::kOk;
  const TransitionModel& transitions = model.transitions();
  for (int64_t i = 0; i < n; ++i) {
    const int64_t begin = num_frames * i / n;
    const int64_t end = num_frames * (i + 1) / n;
    const int32_t id = states[static_cast<size_t>(i)];
    const int32_t loop = transitions.SelfLoopOf(transitions.TransitionState(id));
    AlignedPhone& phone = phones[phone_of[static_cast<size_t>(i)]];
    if (phone.num_frames == 0) phone.begin_frame = static_cast<int>(begin);
    phone.num_frames += static_cast<int>(end - begin);
    for (int64_t t = begin; t < end; ++t) alignment.transition_ids.push_back(t == begin || loop == 0 ? id : loop);
  }
  alignment.phones = std::move(phones);
  return alignment;
}

}  // namespace antiphon::hmm
