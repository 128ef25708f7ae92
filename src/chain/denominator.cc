#include "chain/denominator.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>

#include "base/error.h"
#include "math/safetensors.h"

namespace antiphon::chain {
namespace {

using State = DenominatorGraph::State;
using Arc = DenominatorGraph::Arc;

constexpr const char* kDenominatorFormat = "antiphon-chain-denominator-1";

struct Expansion {
  std::vector<State> states;
  std::vector<double> end;  // probability that an utterance ends in the state
  std::vector<Arc> arcs;
};

// A state is a history and the loop pdf-id of its last phone, which histories of two phones or more determine.
Expansion Expand(const hmm::HmmModel& model, const hmm::PhoneNgrams& ngrams) {
  Expansion result;
  std::map<std::pair<int32_t, int32_t>, int32_t> ids;
  std::vector<int32_t> history_of;
  const auto place = [&](int32_t history, int32_t phone, int32_t loop_pdf) {
    const auto [it, added] = ids.emplace(std::pair(history, loop_pdf), static_cast<int32_t>(ids.size()));
    if (added) {
      history_of.push_back(history);
      result.states.push_back({phone, loop_pdf, 0});
      result.end.push_back(ngrams.states[static_cast<size_t>(history)].end_probability);
    }
    return it->second;
  };
  place(0, 0, -1);
  for (size_t s = 0; s < history_of.size(); ++s) {
    for (const hmm::PhoneNgrams::Arc& arc : ngrams.states[static_cast<size_t>(history_of[s])].arcs) {
      const int32_t context[3] = {result.states[s].phone, arc.phone, 0};
      const std::span<const int32_t> window = model.Window(context);
      const int32_t to = place(arc.to, arc.phone, model.tree().Pdf(window, 1));
      result.arcs.push_back(
          {static_cast<int32_t>(s), to, model.tree().Pdf(window, 0), static_cast<float>(arc.probability)});
    }
  }
  return result;
}

// Where a walk is, on average over a hundred frames from the beginning.
void SetInitial(Expansion* graph) {
  constexpr int kSteps = 100;
  const size_t n = graph->states.size();
  std::vector<double> leaving(graph->end);
  for (size_t s = 0; s < n; ++s) leaving[s] += graph->states[s].loop_pdf >= 0 ? 1.0 : 0.0;
  for (const Arc& a : graph->arcs) leaving[static_cast<size_t>(a.from)] += static_cast<double>(a.probability);
  std::vector<double> now(n, 0.0), next(n), average(n, 0.0);
  now[0] = 1;
  for (int step = 0; step < kSteps; ++step) {
    for (size_t s = 0; s < n; ++s) {
      average[s] += now[s] / kSteps;
      now[s] = leaving[s] > 0 ? now[s] / leaving[s] : 0;
      next[s] = graph->states[s].loop_pdf >= 0 ? now[s] : 0;
    }
    for (const Arc& a : graph->arcs) {
      next[static_cast<size_t>(a.to)] += now[static_cast<size_t>(a.from)] * static_cast<double>(a.probability);
    }
    // What has come to an end is shared out among the rest.
    double total = 0;
    for (const double p : next) total += p;
    for (size_t s = 0; s < n; ++s) now[s] = next[s] / total;
  }
  for (size_t s = 0; s < n; ++s) graph->states[s].initial = static_cast<float>(average[s]);
}

// Makes states with equal futures one: first all that emit alike are taken for equal, then those are told apart whose
// arcs differ, until none are.
void MergeEqualStates(Expansion* graph) {
  using Target = std::tuple<int32_t, int32_t, float>;  // pdf-id, class, probability
  const size_t n = graph->states.size();
  std::vector<std::vector<const Arc*>> leaving(n);
  for (const Arc& a : graph->arcs) leaving[static_cast<size_t>(a.from)].push_back(&a);
  std::vector<int32_t> class_of(n, 0);
  {
    std::map<std::pair<int32_t, int32_t>, int32_t> classes;
    for (size_t s = 0; s < n; ++s) {
      const std::pair key(graph->states[s].phone, graph->states[s].loop_pdf);
      class_of[s] = classes.emplace(key, static_cast<int32_t>(classes.size())).first->second;
    }
  }
  for (size_t num_classes = 0;;) {
    std::map<std::pair<int32_t, std::vector<Target>>, int32_t> classes;
    std::vector<int32_t> finer(n);
    for (size_t s = 0; s < n; ++s) {
      std::pair<int32_t, std::vector<Target>> key(class_of[s], {});
      for (const Arc* a : leaving[s])
        key.second.emplace_back(a->pdf_id, class_of[static_cast<size_t>(a->to)], a->probability);
      std::ranges::sort(key.second);
      finer[s] = classes.emplace(std::move(key), static_cast<int32_t>(classes.size())).first->second;
    }
    class_of = std::move(finer);
    if (classes.size() == num_classes) break;
    num_classes = classes.size();
  }
  Expansion merged;
  for (size_t s = 0; s < n; ++s) {
    const auto c = static_cast<size_t>(class_of[s]);
    if (c == merged.states.size()) {  // classes are numbered as they come
      merged.states.push_back(graph->states[s]);
      for (const Arc* a : leaving[s]) {
        merged.arcs.push_back(
            {static_cast<int32_t>(c), class_of[static_cast<size_t>(a->to)], a->pdf_id, a->probability});
      }
    } else {
      merged.states[c].initial += graph->states[s].initial;
    }
  }
  *graph = std::move(merged);
}

}  // namespace

void RequireChainModel(const hmm::HmmModel& model) {
  if (!model.topology().IsChain() || model.context_width() > 2) {
    throw InputError(
        "the model is no chain model (one state per phone that emits otherwise when entered than when staying, left "
        "neighbours alone as context): make one with antiphon chain");
  }
}

DenominatorGraph DenominatorGraph::Build(const hmm::HmmModel& model, const hmm::PhoneNgrams& ngrams) {
  RequireChainModel(model);
  Expansion graph = Expand(model, ngrams);
  SetInitial(&graph);
  MergeEqualStates(&graph);
  return {std::move(graph.states), std::move(graph.arcs), model.num_pdfs()};
}

DenominatorGraph::DenominatorGraph(std::vector<State> states, std::vector<Arc> arcs, int num_pdfs)
    : num_pdfs_(num_pdfs), states_(std::move(states)), arcs_(std::move(arcs)) {
  const auto phone_of = [&](const Arc& a) { return states_[static_cast<size_t>(a.to)].phone; };
  std::ranges::stable_sort(arcs_, {}, [&](const Arc& a) { return std::tuple(a.from, phone_of(a), a.pdf_id, a.to); });
  first_arc_.assign(states_.size() + 1, 0);
  for (const Arc& a : arcs_) ++first_arc_[static_cast<size_t>(a.from) + 1];
  for (size_t s = 1; s < first_arc_.size(); ++s) first_arc_[s] += first_arc_[s - 1];
  for (size_t s = 0; s < states_.size(); ++s) {
    places_[{states_[s].phone, states_[s].loop_pdf}].push_back(static_cast<int32_t>(s));
  }
}

const DenominatorGraph::Arc* DenominatorGraph::Entering(int32_t state, int32_t phone) const {
  const std::span<const Arc> arcs = ArcsFrom(state);
  const auto it =
      std::ranges::lower_bound(arcs, phone, {}, [&](const Arc& a) { return states_[static_cast<size_t>(a.to)].phone; });
  return it != arcs.end() && states_[static_cast<size_t>(it->to)].phone == phone ? &*it : nullptr;
}

std::span<const int32_t> DenominatorGraph::StatesOf(int32_t phone, int32_t loop_pdf) const {
  const auto it = places_.find({phone, loop_pdf});
  return it == places_.end() ? std::span<const int32_t>() : std::span<const int32_t>(it->second);
}

void DenominatorGraph::Save(const std::filesystem::path& path, const hmm::HmmModel& model) const {
  std::vector<int32_t> phones, loop_pdfs, from, to, pdf_ids;
  std::vector<float> initial, probabilities;
  for (const State& s : states_) {
    phones.push_back(s.phone);
    loop_pdfs.push_back(s.loop_pdf);
    initial.push_back(s.initial);
  }
  for (const Arc& a : arcs_) {
    from.push_back(a.from);
    to.push_back(a.to);
    pdf_ids.push_back(a.pdf_id);
    probabilities.push_back(a.probability);
  }
  SafetensorsWriter writer;
  writer.Add("phones", std::span<const int32_t>(phones));
  writer.Add("loop_pdfs", std::span<const int32_t>(loop_pdfs));
  writer.Add("initial", std::span<const float>(initial));
  writer.Add("from", std::span<const int32_t>(from));
  writer.Add("to", std::span<const int32_t>(to));
  writer.Add("pdf_ids", std::span<const int32_t>(pdf_ids));
  writer.Add("probabilities", std::span<const float>(probabilities));
  writer.SetMetadata("format", kDenominatorFormat);
  writer.SetMetadata("model_structure", model.StructureChecksum());
  writer.Write(path);
}

DenominatorGraph DenominatorGraph::Load(const std::filesystem::path& path, const hmm::HmmModel& model) {
  RequireChainModel(model);
  const SafetensorsReader reader(path);
  if (reader.MetadataOr("format", "") != kDenominatorFormat) {
    Throw<InputError>("'{}' is no denominator graph of a chain model: make it with antiphon chain", path.string());
  }
  if (reader.Metadata("model_structure") != model.StructureChecksum()) {
    Throw<InputError>("'{}' was made for another model: phones, topology or tree differ; make it anew", path.string());
  }
  const auto phones = reader.ReadInts("phones"), loop_pdfs = reader.ReadInts("loop_pdfs"),
             from = reader.ReadInts("from"), to = reader.ReadInts("to"), pdf_ids = reader.ReadInts("pdf_ids");
  const std::vector<float> initial = reader.ReadFloats("initial"), probabilities = reader.ReadFloats("probabilities");
  const auto num_states = static_cast<int64_t>(phones.size());
  bool sound = num_states > 0 && phones[0] == 0 && loop_pdfs.size() == phones.size() && initial.size() == phones.size();
  const auto is_share = [](float p) { return p >= 0 && p <= 1.0001F; };
  std::vector<State> states;
  for (size_t s = 0; sound && s < phones.size(); ++s) {
    sound = phones[s] >= 0 && phones[s] <= model.phones().num_phones() && (phones[s] == 0) == (s == 0) &&
            loop_pdfs[s] >= -1 && loop_pdfs[s] < model.num_pdfs() && (loop_pdfs[s] == -1) == (s == 0) &&
            is_share(initial[s]);
    states.push_back({static_cast<int32_t>(phones[s]), static_cast<int32_t>(loop_pdfs[s]), initial[s]});
  }
  const size_t num_arcs = probabilities.size();
  sound = sound && num_arcs > 0 && from.size() == num_arcs && to.size() == num_arcs && pdf_ids.size() == num_arcs;
  std::vector<Arc> arcs;
  for (size_t a = 0; sound && a < num_arcs; ++a) {
    sound = from[a] >= 0 && from[a] < num_states && to[a] > 0 && to[a] < num_states && pdf_ids[a] >= 0 &&
            pdf_ids[a] < model.num_pdfs() && is_share(probabilities[a]);
    arcs.push_back({static_cast<int32_t>(from[a]), static_cast<int32_t>(to[a]), static_cast<int32_t>(pdf_ids[a]),
                    probabilities[a]});
  }
  if (!sound) Throw<InputError>("'{}' is damaged: its states and arcs do not fit one another", path.string());
  return {std::move(states), std::move(arcs), model.num_pdfs()};
}

}  // namespace antiphon::chain
