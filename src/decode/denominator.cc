#include "decode/denominator.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "decode/graph.h"
#include "decode/graph_builder.h"
#include "hmm/graph/openfst.h"
#include "math/safetensors.h"

namespace antiphon::decode {
namespace {

using Fst = fst::StdVectorFst;

// A state per history of up to order − 1 phones, an arc for each phone that was seen behind it, with its share.
Fst PhoneNgrams(const std::vector<std::vector<int32_t>>& sentences, int order) {
  using History = std::vector<int32_t>;
  constexpr int32_t kEnd = 0;
  std::map<History, std::map<int32_t, double>> counts;
  for (const std::vector<int32_t>& phones : sentences) {
    if (phones.empty()) continue;
    History history;
    for (size_t i = 0; i <= phones.size(); ++i) {
      const int32_t next = i < phones.size() ? phones[i] : kEnd;
      counts[history][next] += 1;
      history.push_back(next);
      if (history.size() >= static_cast<size_t>(order)) history.erase(history.begin());
    }
  }
  if (counts.empty()) throw InputError("the alignments hold no phones, of which the denominator graph is made");
  std::map<History, int> states;
  Fst fst;
  for (const auto& [history, nexts] : counts) states[history] = fst.AddState();
  fst.SetStart(states.at({}));
  for (const auto& [history, nexts] : counts) {
    double total = 0;
    for (const auto& [phone, count] : nexts) total += count;
    for (const auto& [phone, count] : nexts) {
      const auto cost = static_cast<float>(-std::log(count / total));
      if (phone == kEnd) {
        fst.SetFinal(states.at(history), cost);
        continue;
      }
      History after = history;
      after.push_back(phone);
      if (after.size() >= static_cast<size_t>(order)) after.erase(after.begin());
      fst.AddArc(states.at(history), {phone, phone, cost, states.at(after)});
    }
  }
  return fst;
}

// Without arcs that take no frame, their probabilities summed.
fst::VectorFst<fst::LogArc> WithoutEpsilons(const Fst& fst) {
  fst::VectorFst<fst::LogArc> log_fst;
  fst::ArcMap(fst, &log_fst, fst::WeightConvertMapper<fst::StdArc, fst::LogArc>());
  fst::Project(&log_fst, fst::ProjectType::INPUT);
  fst::RmEpsilon(&log_fst);
  return log_fst;
}

}  // namespace

// Where a walk through the graph is after some frames, on average over a hundred of them; arcs count as the graph's
// probabilities say, made to sum to 1 for each state.
DenominatorGraph::DenominatorGraph(int32_t num_states, int32_t start, std::vector<Arc> arcs) : arcs_(std::move(arcs)) {
  constexpr int kSteps = 100;
  std::ranges::stable_sort(arcs_, {}, [](const Arc& a) { return std::tuple(a.pdf_id, a.from, a.to); });
  Index();
  std::vector<double> leaving(static_cast<size_t>(num_states), 0.0);
  for (const Arc& a : arcs_) leaving[static_cast<size_t>(a.from)] += static_cast<double>(a.probability);
  std::vector<double> now(leaving.size(), 0.0), sum(leaving.size(), 0.0);
  now[static_cast<size_t>(start)] = 1;
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> next(leaving.size(), 0.0);
    double total = 0;
    for (const Arc& a : arcs_) {
      const auto from = static_cast<size_t>(a.from);
      const double share = now[from] * static_cast<double>(a.probability) / leaving[from];
      next[static_cast<size_t>(a.to)] += share;
      total += share;
    }
    for (size_t s = 0; s < now.size(); ++s) {
      sum[s] += now[s] / kSteps;
      // What has come to an end begins anew.
      now[s] = next[s] + (s == static_cast<size_t>(start) ? 1 - total : 0.0);
    }
  }
  initial_.assign(sum.begin(), sum.end());
}

void DenominatorGraph::Index() {
  num_pdfs_ = arcs_.empty() ? 0 : arcs_.back().pdf_id + 1;
  first_arc_.assign(static_cast<size_t>(num_pdfs_) + 1, 0);
  for (const Arc& a : arcs_) ++first_arc_[static_cast<size_t>(a.pdf_id) + 1];
  for (size_t p = 1; p < first_arc_.size(); ++p) first_arc_[p] += first_arc_[p - 1];
}

DenominatorGraph DenominatorGraph::Build(const hmm::HmmModel& model, const std::vector<std::vector<int32_t>>& phones,
                                         const DenominatorOptions& options) {
  GraphBuildOptions build;
  build.self_loop_scale = options.self_loop_scale;
  Fst expanded;
  BuildPhoneGraphFst(model, PhoneNgrams(phones, options.order), {}, build, &expanded);
  const auto graph = WithoutEpsilons(expanded);
  std::vector<Arc> arcs;
  for (int s = 0; s < graph.NumStates(); ++s) {
    for (fst::ArcIterator<fst::VectorFst<fst::LogArc>> it(graph, s); !it.Done(); it.Next()) {
      const fst::LogArc& arc = it.Value();
      arcs.push_back({s, arc.nextstate, model.transitions().Pdf(arc.ilabel), std::exp(-arc.weight.Value())});
    }
  }
  DenominatorGraph result(graph.NumStates(), graph.Start(), std::move(arcs));
  result.num_pdfs_ = model.num_pdfs();
  result.first_arc_.resize(static_cast<size_t>(model.num_pdfs()) + 1, result.arcs_.size());
  return result;
}

void DenominatorGraph::Save(const std::filesystem::path& path, const hmm::HmmModel& model) const {
  SafetensorsWriter writer;
  std::vector<int32_t> from, to, pdf_ids;
  std::vector<float> probabilities;
  for (const Arc& a : arcs_) {
    from.push_back(a.from);
    to.push_back(a.to);
    pdf_ids.push_back(a.pdf_id);
    probabilities.push_back(a.probability);
  }
  writer.Add("from", std::span<const int32_t>(from));
  writer.Add("to", std::span<const int32_t>(to));
  writer.Add("pdf_ids", std::span<const int32_t>(pdf_ids));
  writer.Add("probabilities", std::span<const float>(probabilities));
  writer.Add("initial", std::span<const float>(initial_));
  writer.SetMetadata("format", "antiphon-denominator-1");
  writer.SetMetadata("model_structure", ModelStructureChecksum(model));
  writer.Write(path);
}

DenominatorGraph DenominatorGraph::Load(const std::filesystem::path& path, const hmm::HmmModel& model) {
  const SafetensorsReader reader(path);
  if (reader.MetadataOr("format", "") != "antiphon-denominator-1") {
    Throw<InputError>("'{}' is no denominator graph", path.string());
  }
  if (reader.Metadata("model_structure") != ModelStructureChecksum(model)) {
    Throw<InputError>("'{}' was made for another model: phones, topology or tree differ; make it anew", path.string());
  }
  const auto from = reader.ReadInts("from"), to = reader.ReadInts("to"), pdf_ids = reader.ReadInts("pdf_ids");
  const std::vector<float> probabilities = reader.ReadFloats("probabilities");
  DenominatorGraph graph;
  graph.initial_ = reader.ReadFloats("initial");
  const auto states = static_cast<int64_t>(graph.initial_.size());
  const size_t arcs = probabilities.size();
  bool sound = from.size() == arcs && to.size() == arcs && pdf_ids.size() == arcs && arcs > 0;
  for (size_t i = 0; sound && i < arcs; ++i) {
    sound = from[i] >= 0 && from[i] < states && to[i] >= 0 && to[i] < states && pdf_ids[i] >= 0 &&
            pdf_ids[i] < model.num_pdfs() && (i == 0 || pdf_ids[i - 1] <= pdf_ids[i]) && probabilities[i] >= 0;
    graph.arcs_.push_back({static_cast<int32_t>(from[i]), static_cast<int32_t>(to[i]), static_cast<int32_t>(pdf_ids[i]),
                           probabilities[i]});
  }
  if (!sound) Throw<InputError>("'{}': its arcs do not fit its {} states", path.string(), states);
  graph.Index();
  graph.num_pdfs_ = model.num_pdfs();
  graph.first_arc_.resize(static_cast<size_t>(model.num_pdfs()) + 1, arcs);
  return graph;
}

}  // namespace antiphon::decode
