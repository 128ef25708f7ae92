#include "decode/graph/parts_builder.h"

#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "decode/graph/const_fst.h"
#include "decode/graph/const_fst_writer.h"
#include "decode/graph/determinize_star.h"
#include "decode/graph/graph_folder.h"
#include "decode/graph/graph_json.h"
#include "decode/graph/graph_operations.h"
#include "decode/graph/unknown_words.h"
#include "hmm/graph/lexicon_fst.h"
#include "hmm/graph/openfst.h"
#include "math/safetensors.h"

namespace antiphon::decode {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLabelFile = "pronunciations.safetensors";

// Its states and arcs as a search reads them.
void TakeApart(const fst::StdVectorFst& fst, std::vector<GraphState>& states, std::vector<GraphArc>& arcs) {
  for (int s = 0; s < fst.NumStates(); ++s) {
    const auto begin = static_cast<uint32_t>(arcs.size());
    for (fst::ArcIterator<fst::StdVectorFst> it(fst, s); !it.Done(); it.Next()) {
      const fst::StdArc& arc = it.Value();
      arcs.push_back({arc.ilabel, arc.olabel, arc.weight.Value(), arc.nextstate});
    }
    states.push_back({begin, begin + static_cast<uint32_t>(fst.NumInputEpsilons(s)), static_cast<uint32_t>(arcs.size()),
                      fst.Final(s).Value()});
  }
}

fst::StdVectorFst ToFst(const LexiconGraph& graph) {
  fst::StdVectorFst fst;
  fst.AddStates(graph.states().size());
  fst.SetStart(graph.start());
  for (int s = 0; s < fst.NumStates(); ++s) {
    const GraphState& state = graph.states()[static_cast<size_t>(s)];
    fst.SetFinal(s, state.final_cost);
    for (uint32_t a = state.epsilon_begin; a < state.end; ++a) {
      const GraphArc& arc = graph.arcs()[a];
      fst.AddArc(s, fst::StdArc(arc.transition_id, arc.word, arc.cost, arc.next_state));
    }
  }
  return fst;
}

// Determinisation added up the probabilities of pronunciations, which are 1 each here: a state's costs have −log of the
// number of those ahead in them. What they cost is the search's to add.
void WeighWordsAlike(const LexiconGraph& graph, std::vector<GraphArc>& arcs) {
  std::vector<float> costs(graph.states().size(), 0.0F);
  for (size_t s = 0; s < costs.size(); ++s) {
    int64_t count = 0;
    for (const LexiconGraph::Labels range : graph.LabelsAhead(graph.AheadSet(static_cast<int32_t>(s))))
      count += range.last - range.first + 1;
    if (count > 0) costs[s] = static_cast<float>(std::log(static_cast<double>(count)));
  }
  for (size_t s = 0; s < costs.size(); ++s) {
    const GraphState& state = graph.states()[s];
    for (uint32_t a = state.epsilon_begin; a < state.end; ++a) {
      arcs[a].cost += costs[static_cast<size_t>(arcs[a].next_state)] - costs[s];
    }
  }
}

// In files a list of each member.
constexpr std::pair<const char*, double hmm::PronunciationModel::Entry::*> kEntryLists[] = {
    {"model.probability", &hmm::PronunciationModel::Entry::probability},
    {"model.pause_after", &hmm::PronunciationModel::Entry::pause_after},
    {"model.factor_after_pause", &hmm::PronunciationModel::Entry::factor_after_pause},
    {"model.factor_after_none", &hmm::PronunciationModel::Entry::factor_after_none}};
constexpr double hmm::PronunciationModel::*kPauses[] = {
    &hmm::PronunciationModel::pause_at_start, &hmm::PronunciationModel::end_factor_after_pause,
    &hmm::PronunciationModel::end_factor_after_none, &hmm::PronunciationModel::pause_overall};
constexpr const char* kPauseList = "model.pauses";

void SaveLabels(const LexiconGraph& graph, const hmm::PronunciationModel* model, AtomicFile& file) {
  SafetensorsWriter writer;
  std::vector<int32_t> words;
  std::vector<float> costs;
  for (const hmm::PronunciationLabel& label : graph.labels()) {
    words.push_back(label.word);
    costs.push_back(label.cost);
  }
  writer.Add("word", std::span<const int32_t>(words));
  writer.Add("cost", std::span<const float>(costs));
  if (model != nullptr) {
    for (const auto& [name, member] : kEntryLists) {
      std::vector<float> values;
      for (const auto& entry : model->entries) values.push_back(static_cast<float>(entry.*member));
      writer.Add(name, std::span<const float>(values));
    }
    std::vector<double> pauses;
    for (const auto member : kPauses) pauses.push_back(model->*member);
    writer.Add(kPauseList, std::span<const double>(pauses));
  }
  writer.Write(file);
}

std::vector<hmm::PronunciationLabel> LoadLabels(const fs::path& path) {
  const SafetensorsReader file(path);
  const std::vector<int64_t> words = file.ReadInts("word");
  const std::vector<float> costs = file.ReadFloats("cost");
  if (words.size() != costs.size())
    Throw<InputError>("'{}' has {} words and {} costs", path.string(), words.size(), costs.size());
  std::vector<hmm::PronunciationLabel> labels(words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    const bool fits = words[i] >= 0 && words[i] <= std::numeric_limits<int32_t>::max();
    labels[i] = {fits ? static_cast<int32_t>(words[i]) : -1, costs[i]};
  }
  return labels;
}

std::vector<int32_t> LabelsOf(int32_t word, const std::vector<hmm::PronunciationLabel>& labels) {
  std::vector<int32_t> result;
  for (size_t label = 1; label < labels.size(); ++label) {
    if (labels[label].word == word) result.push_back(static_cast<int32_t>(label));
  }
  return result;
}

}  // namespace

LexiconGraph BuildLexiconGraph(const hmm::HmmModel& model, const hmm::Lexicon& lexicon,
                               const GraphBuildOptions& options, const hmm::PronunciationModel* pronunciations) {
  if (model.context_width() > 2) {
    throw InputError(
        "the states of this model depend on the phone that follows, which a graph on the fly cannot know in time: "
        "build "
        "it without --on-the-fly (chain models and those of single phones can be built with it)");
  }
  fst::StdVectorFst sounds, fst;
  std::vector<hmm::PronunciationLabel> labels;
  {
    fst::StdVectorFst l;
    std::vector<int32_t> disambiguation = hmm::BuildPronunciationFst(lexicon, pronunciations, &l, &labels);
    const int32_t unknown_symbol = disambiguation.back() + 1;
    if (options.unknown_words > 0) {
      disambiguation.push_back(unknown_symbol);
      MarkUnknownWord(lexicon, LabelsOf(lexicon.unknown_word(), labels), unknown_symbol, &l);
    }
    DeterminizeStar(l, options.max_states, &sounds);
    MergeEqualStates(&sounds);
    if (options.unknown_words > 0) SpellUnknownWord(lexicon, unknown_symbol, &sounds);
    BuildPhoneGraphFst(model, sounds, disambiguation, options, &fst);
  }
  std::vector<GraphState> states;
  auto arcs = std::make_shared<std::vector<GraphArc>>();
  TakeApart(fst, states, *arcs);
  const std::vector<int32_t> number = NumberLabels(states, *arcs, fst.Start(), static_cast<int32_t>(labels.size()));
  std::vector<hmm::PronunciationLabel> numbered(labels.size());
  for (size_t label = 1; label < labels.size(); ++label) numbered[static_cast<size_t>(number[label])] = labels[label];
  for (GraphArc& arc : *arcs) arc.word = number[static_cast<size_t>(arc.word)];
  const std::span<const GraphArc> view = *arcs;
  log::Debug("HCL: {} states, {} arcs", states.size(), view.size());
  LexiconGraph graph(std::move(states), view, arcs, fst.Start(), std::move(numbered),
                     model.transitions().num_transition_ids(), lexicon.num_words());
  WeighWordsAlike(graph, *arcs);
  return graph;
}

std::shared_ptr<const GraphParts> BuildGraphParts(const hmm::HmmModel& model, const hmm::Lexicon& lexicon,
                                                  fst::StdVectorFst grammar, const GraphBuildOptions& options,
                                                  const hmm::PronunciationModel* pronunciations) {
  WordAutomaton words = WordAutomaton::FromFst(WithUnknownWord(lexicon, options, std::move(grammar)),
                                               lexicon.backoff_word(), options.max_states);
  return std::make_shared<const GraphParts>(BuildLexiconGraph(model, lexicon, options, pronunciations),
                                            std::move(words));
}

void SaveParts(const GraphParts& parts, const hmm::HmmModel& model, const hmm::Lexicon& lexicon,
               const hmm::PronunciationModel* pronunciations, const std::string& language_model,
               const GraphBuildOptions& options, const fs::path& folder) {
  GraphFolder files(folder);
  WriteConstFst(ToFst(parts.lexicon()), files.New("HCL.fst"));
  SaveLabels(parts.lexicon(), pronunciations, files.New(kLabelFile));
  parts.words().Save(files.New("G.safetensors"));
  files.Write("words.txt", SymbolTable(lexicon));
  files.Write("lexicon.txt", lexicon.ToText());
  GraphJson json;
  json.format = kPartsFormat;
  json.info = DescribeGraph(model, lexicon, language_model, options);
  for (const char* file : {"HCL.fst", kLabelFile, "G.safetensors"}) json.checksums[file] = files.NewChecksum(file);
  files.Write("graph.json", ToText(json));
  files.Commit();
}

LexiconGraph LoadLexiconGraph(const fs::path& folder, const hmm::HmmModel& model, const hmm::Lexicon& lexicon) {
  std::vector<hmm::PronunciationLabel> labels = LoadLabels(folder / kLabelFile);
  const fs::path path = folder / "HCL.fst";
  const auto file = std::make_shared<const MappedFile>(path);
  return WithContext(
      [&] {
        const ConstFst fst = ParseConstFst(file->bytes());
        const bool starts = fst.start >= 0 && fst.start < std::ssize(fst.states);
        return LexiconGraph(StatesOf(fst), fst.arcs, file, starts ? static_cast<int32_t>(fst.start) : -1,
                            std::move(labels), model.transitions().num_transition_ids(), lexicon.num_words());
      },
      [&] { return fmt::format("'{}' or {} beside it is damaged; build the graph again", path.string(), kLabelFile); });
}

std::optional<hmm::PronunciationModel> LoadPronunciationModel(const fs::path& folder) {
  const SafetensorsReader file(folder / kLabelFile);
  if (!file.Has(kPauseList)) return std::nullopt;
  hmm::PronunciationModel model;
  const std::vector<double> pauses = file.ReadDoubles(kPauseList);
  if (pauses.size() != std::size(kPauses))
    Throw<InputError>("'{}': {} has {} values", file.path().string(), kPauseList, pauses.size());
  for (size_t i = 0; i < pauses.size(); ++i) model.*kPauses[i] = pauses[i];
  for (const auto& [name, member] : kEntryLists) {
    const std::vector<float> values = file.ReadFloats(name);
    if (model.entries.empty()) model.entries.resize(values.size());
    if (model.entries.size() != values.size())
      Throw<InputError>("'{}': its lists differ in length", file.path().string());
    for (size_t i = 0; i < values.size(); ++i) model.entries[i].*member = static_cast<double>(values[i]);
  }
  return model;
}

Graph GraphFromParts(std::shared_ptr<const GraphParts> parts, const hmm::HmmModel& model, const hmm::Lexicon& lexicon) {
  std::vector<std::string> words;
  for (int32_t w = 0; w <= lexicon.num_words(); ++w) words.push_back(lexicon.Word(w));
  std::vector<int32_t> pdfs(static_cast<size_t>(model.transitions().num_transition_ids()) + 1, 0);
  for (size_t t = 1; t < pdfs.size(); ++t) pdfs[t] = model.transitions().Pdf(static_cast<int32_t>(t));
  return {std::move(parts), std::move(words), std::move(pdfs)};
}

}  // namespace antiphon::decode
