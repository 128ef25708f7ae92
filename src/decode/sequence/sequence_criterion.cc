#include "decode/sequence/sequence_criterion.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/log_add.h"

namespace antiphon::decode {
namespace {

constexpr double kLogZero = -std::numeric_limits<double>::infinity();

// An arc of the lattice, or the end of a path in a final state, whose `to` is one beyond the states.
struct Edge {
  int32_t from;
  int32_t to;
  int begin;  // first frame
  double graph_cost;
  std::span<const int32_t> alignment;
  double log_weight = 0;
  double right = 0;  // frames
};

// Edges in the order of their first states, with the frames that they span.
std::vector<Edge> Edges(const Lattice& lattice, size_t num_frames) {
  const auto end = static_cast<int32_t>(lattice.states.size());
  std::vector<int> time(lattice.states.size() + 1, -1);
  std::vector<Edge> edges;
  const auto add = [&](int32_t from, int32_t to, double graph_cost, std::span<const int32_t> alignment) {
    const int begin = time[static_cast<size_t>(from)];
    int& reached = time[static_cast<size_t>(to)];
    const int now = begin + static_cast<int>(alignment.size());
    if (reached >= 0 && reached != now) {
      Throw<InputError>("a lattice's state is reached after {} and after {} frames", reached, now);
    }
    reached = now;
    edges.push_back({from, to, begin, graph_cost, alignment});
  };
  if (!time.empty()) time[0] = 0;
  for (int32_t s = 0; s < end; ++s) {
    const LatticeState& state = lattice.states[static_cast<size_t>(s)];
    if (time[static_cast<size_t>(s)] < 0) continue;  // not reached from the start
    for (const LatticeArc& arc : state.arcs) add(s, arc.next_state, arc.cost.graph, lattice.Alignment(arc.alignment));
    if (state.is_final) add(s, end, state.final_cost.graph, lattice.Alignment(state.final_alignment));
  }
  if (time.back() != static_cast<int>(num_frames)) {
    Throw<InputError>("the lattice spans {} frames, the utterance has {}", std::max(time.back(), 0), num_frames);
  }
  return edges;
}

bool Matches(const Edge& edge, std::span<const int32_t> reference) {
  return std::ranges::equal(edge.alignment, reference.subspan(static_cast<size_t>(edge.begin), edge.alignment.size()));
}

// log Σ of the weights of the paths that are the reference; −∞ if there is none.
double ReferenceLogWeight(std::span<const Edge> edges, size_t num_states, std::span<const int32_t> reference) {
  std::vector<double> forward(num_states + 1, kLogZero);
  forward[0] = 0;
  for (const Edge& edge : edges) {
    const double from = forward[static_cast<size_t>(edge.from)];
    if (from == kLogZero || !Matches(edge, reference)) continue;
    double& to = forward[static_cast<size_t>(edge.to)];
    to = LogAdd(to, from + edge.log_weight);
  }
  return forward.back();
}

// What the paths through each state weigh, and how many right frames they have on average before and behind it.
struct Passes {
  std::vector<double> forward, backward;
  std::vector<double> right_before, right_behind;
  double total() const { return forward.back(); }
  double right() const { return right_before.back(); }
};

Passes Sweep(std::span<const Edge> edges, size_t num_states) {
  Passes p;
  p.forward.assign(num_states + 1, kLogZero);
  p.backward = p.forward;
  p.right_before.assign(num_states + 1, 0.0);
  p.right_behind = p.right_before;
  p.forward.front() = 0;
  p.backward.back() = 0;
  // An edge's share of what a state has gathered so far is known at once, so that averages need no second pass.
  const auto gather = [](double& weight, double& right, double more_weight, double more_right) {
    if (more_weight == kLogZero) return;
    weight = LogAdd(weight, more_weight);
    right += std::exp(more_weight - weight) * (more_right - right);
  };
  for (const Edge& e : edges) {
    const auto from = static_cast<size_t>(e.from), to = static_cast<size_t>(e.to);
    gather(p.forward[to], p.right_before[to], p.forward[from] + e.log_weight, p.right_before[from] + e.right);
  }
  for (size_t i = edges.size(); i-- > 0;) {
    const Edge& e = edges[i];
    const auto from = static_cast<size_t>(e.from), to = static_cast<size_t>(e.to);
    gather(p.backward[from], p.right_behind[from], p.backward[to] + e.log_weight, p.right_behind[to] + e.right);
  }
  return p;
}

}  // namespace

bool HasReference(const Lattice& lattice, std::span<const int32_t> alignment) {
  const std::vector<Edge> edges = Edges(lattice, alignment.size());
  return ReferenceLogWeight(edges, lattice.states.size(), alignment) != kLogZero;
}

void AddReference(std::span<const int32_t> alignment, const LatticeCost& cost, Lattice* lattice) {
  if (lattice->empty()) {
    lattice->states.emplace_back();
  } else if (HasReference(*lattice, alignment)) {
    return;
  }
  const auto end = static_cast<int32_t>(lattice->states.size());
  lattice->states[0].arcs.push_back({end, 0, cost, lattice->AddAlignment(alignment)});
  lattice->states.push_back({.arcs = {}, .is_final = true, .final_cost = {}, .final_alignment = {}});
}

TransitionClasses ClassesOf(const hmm::HmmModel& model, const SequenceCriterionOptions& options) {
  constexpr int32_t kSilence = -1;
  const hmm::TransitionModel& transitions = model.transitions();
  TransitionClasses result;
  result.pdf_ids.assign(static_cast<size_t>(transitions.num_transition_ids()) + 1, -1);
  result.classes = result.pdf_ids;
  for (int32_t id = 1; id <= transitions.num_transition_ids(); ++id) {
    const auto i = static_cast<size_t>(id);
    const int32_t phone = transitions.Phone(id);
    result.pdf_ids[i] = transitions.Pdf(id);
    const bool as_one = options.one_silence_class && model.phones().IsSilence(phone);
    result.classes[i] = as_one ? kSilence : options.criterion == "mpfe" ? phone : transitions.Pdf(id);
  }
  return result;
}

int32_t SequenceCriterion::PdfOf(int32_t transition_id, int64_t num_pdfs) const {
  const auto i = static_cast<size_t>(std::max(transition_id, 0));
  if (transition_id < 1 || i >= transitions_.pdf_ids.size() || transitions_.pdf_ids[i] >= num_pdfs) {
    Throw<InputError>("transition-id {} of the lattice is not one of the model's", transition_id);
  }
  return transitions_.pdf_ids[i];
}

Matrix SequenceCriterion::ScoresFor(const Lattice& lattice, std::span<const int32_t> reference,
                                    ScoreSource& source) const {
  if (static_cast<size_t>(source.num_frames_ready()) != reference.size()) {
    Throw<InputError>("the reference has {} frames, the utterance {}", reference.size(), source.num_frames_ready());
  }
  const int num_pdfs = source.num_pdfs();
  Matrix scores(std::ssize(reference), num_pdfs);
  std::fill_n(scores.data(), scores.size(), std::numeric_limits<float>::quiet_NaN());
  // Frame by frame, as sources have it; a pdf-id comes on many arcs.
  std::vector<std::vector<int32_t>> asked(reference.size());
  for (const Edge& edge : Edges(lattice, reference.size())) {
    for (size_t i = 0; i < edge.alignment.size(); ++i) {
      asked[static_cast<size_t>(edge.begin) + i].push_back(PdfOf(edge.alignment[i], num_pdfs));
    }
  }
  for (size_t t = 0; t < asked.size(); ++t) {
    for (const int32_t pdf : asked[t]) {
      float& score = scores(static_cast<int64_t>(t), pdf);
      if (std::isnan(score)) score = source.LogLikelihood(static_cast<int>(t), pdf);
    }
  }
  return scores;
}

double SequenceCriterion::Loss(const Lattice& lattice, std::span<const int32_t> reference, ConstMatrixView scores,
                               MatrixView gradient) const {
  const double scale = options_.acoustic_scale;
  if (static_cast<size_t>(scores.rows()) != reference.size()) {
    Throw<InputError>("the reference has {} frames, the utterance {}", reference.size(), scores.rows());
  }
  std::vector<Edge> edges = Edges(lattice, reference.size());
  const auto pdf = [&](int32_t transition_id) { return PdfOf(transition_id, scores.cols()); };
  for (const int32_t id : reference) pdf(id);
  for (Edge& edge : edges) {
    edge.log_weight = -edge.graph_cost;
    for (size_t i = 0; i < edge.alignment.size(); ++i) {
      const auto t = static_cast<size_t>(edge.begin) + i;
      const auto here = static_cast<size_t>(edge.alignment[i]), wanted = static_cast<size_t>(reference[t]);
      edge.log_weight += scale * static_cast<double>(scores(static_cast<int64_t>(t), pdf(edge.alignment[i])));
      if (transitions_.classes[here] == transitions_.classes[wanted]) edge.right += 1;
    }
    if (IsMmi()) edge.log_weight -= options_.boost * edge.right;
  }

  const size_t num_states = lattice.states.size();
  const Passes passes = Sweep(edges, num_states);
  if (!gradient.empty()) {
    for (int64_t t = 0; t < gradient.rows(); ++t) std::ranges::fill(gradient.Row(t), 0.0f);
    for (const Edge& e : edges) {
      const auto from = static_cast<size_t>(e.from), to = static_cast<size_t>(e.to);
      const double posterior = std::exp(passes.forward[from] + e.log_weight + passes.backward[to] - passes.total());
      const double lead =
          IsMmi() ? 1.0 : passes.right() - (passes.right_before[from] + e.right + passes.right_behind[to]);
      const auto value = static_cast<float>(scale * posterior * lead);
      for (size_t i = 0; i < e.alignment.size(); ++i) {
        gradient(e.begin + static_cast<int64_t>(i), pdf(e.alignment[i])) += value;
      }
    }
  }
  if (!IsMmi()) return static_cast<double>(reference.size()) - passes.right();

  const double reference_weight = ReferenceLogWeight(edges, num_states, reference);
  if (reference_weight == kLogZero) throw InputError("the lattice lacks the reference");
  for (int64_t t = 0; t < gradient.rows(); ++t) {
    gradient(t, pdf(reference[static_cast<size_t>(t)])) -= static_cast<float>(scale);
  }
  return passes.total() - reference_weight;
}

}  // namespace antiphon::decode
