#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "decode/graph.h"
#include "decode/graph_builder.h"
#include "hmm/graph/openfst.h"

namespace antiphon::decode {
namespace {

namespace fs = std::filesystem;

constexpr int kFormatVersion = 1;

static_assert(sizeof(GraphArc) == sizeof(fst::StdArc) && offsetof(GraphArc, word) == offsetof(fst::StdArc, olabel) &&
              offsetof(GraphArc, cost) == offsetof(fst::StdArc, weight) &&
              offsetof(GraphArc, next_state) == offsetof(fst::StdArc, nextstate));

std::string Hex(uint64_t checksum) { return fmt::format("{:016x}", checksum); }

std::string TransitionChecksum(const hmm::HmmModel& model) {
  const auto values = model.transitions().log_probs();
  return Hex(Checksum(std::as_bytes(std::span(values.data(), values.size()))));
}

std::string SymbolTable(const hmm::Lexicon& lexicon) {
  std::string text;
  for (int32_t w = 0; w <= lexicon.num_words(); ++w) text += fmt::format("{} {}\n", lexicon.Word(w), w);
  return text + fmt::format("#0 {}\n", lexicon.backoff_word());
}

void CheckWords(const std::string& text, const hmm::Lexicon& lexicon, const fs::path& path) {
  if (text != SymbolTable(lexicon)) {
    Throw<InputError>("'{}' is not the word table of lexicon.txt beside it; build the graph again", path.string());
  }
}

struct GraphJson {
  GraphInfo info;
  std::string fst_checksum;
};

GraphJson ParseJson(const std::string& text) {
  try {
    const auto json = nlohmann::json::parse(text);
    if (json.at("format") != kFormatVersion) {
      Throw<InputError>("format {} was expected, {} found; build the graph again", kFormatVersion,
                        json.at("format").dump());
    }
    GraphJson result;
    result.fst_checksum = json.at("fst_checksum");
    result.info.model_structure = json.at("model_structure");
    result.info.transition_weights = json.at("transition_weights");
    result.info.language_model = json.at("language_model");
    result.info.self_loop_scale = json.at("self_loop_scale");
    hmm::LexiconOptions& lexicon = result.info.lexicon;
    const auto& options = json.at("lexicon");
    lexicon.silence_phones = options.at("silence_phones").get<std::vector<std::string>>();
    lexicon.optional_silence = options.at("optional_silence");
    lexicon.unknown_word = options.at("unknown_word");
    lexicon.silence_probability = options.at("silence_probability");
    lexicon.position_dependent = options.at("position_dependent");
    return result;
  } catch (const nlohmann::json::exception& e) {
    Throw<InputError>("this is no description of a graph ({})", e.what());
  }
}

nlohmann::ordered_json ToJson(const GraphJson& graph) {
  const hmm::LexiconOptions& lexicon = graph.info.lexicon;
  return {{"format", kFormatVersion},
          {"fst_checksum", graph.fst_checksum},
          {"model_structure", graph.info.model_structure},
          {"transition_weights", graph.info.transition_weights},
          {"language_model", graph.info.language_model},
          {"self_loop_scale", graph.info.self_loop_scale},
          {"lexicon",
           {{"silence_phones", lexicon.silence_phones},
            {"optional_silence", lexicon.optional_silence},
            {"unknown_word", lexicon.unknown_word},
            {"silence_probability", lexicon.silence_probability},
            {"position_dependent", lexicon.position_dependent}}}};
}

void RequireFit(const GraphInfo& info, const hmm::HmmModel& model, const fs::path& folder) {
  if (info.model_structure != ModelStructureChecksum(model)) {
    Throw<InputError>(
        "the graph in '{}' was built for another model (its phones, topology or tied states differ); build it again "
        "with "
        "antiphon graph",
        folder.string());
  }
  if (info.transition_weights != TransitionChecksum(model)) {
    log::Warn("the graph in '{}' carries transition probabilities of another model with the same states",
              folder.string());
  }
}

}  // namespace

std::string ModelStructureChecksum(const hmm::HmmModel& model) {
  // Built anew, the transition probabilities are the topology's.
  return Hex(Checksum(hmm::HmmModel(model.phones(), model.topology(), model.tree()).ToJson()));
}

void SaveGraph(const fst::StdVectorFst& graph, const hmm::HmmModel& model, const hmm::Lexicon& lexicon,
               const std::string& language_model, const GraphBuildOptions& options, const fs::path& folder) {
  const fst::StdConstFst packed(graph);
  const fs::path fst_path = folder / "HCLG.fst";
  // graph.json goes first and comes back last: without it there is no graph.
  std::error_code ignored;
  fs::remove(folder / "graph.json", ignored);
  WriteFileAtomically(fst_path, [&](std::ostream& stream) {
    fst::FstWriteOptions write_options(fst_path.string());
    write_options.align = true;
    if (!packed.Write(stream, write_options)) Throw<IoError>("cannot write '{}'", fst_path.string());
  });
  WriteFileAtomically(folder / "words.txt", SymbolTable(lexicon));
  WriteFileAtomically(folder / "lexicon.txt", lexicon.ToText());
  GraphJson json;
  json.fst_checksum = Hex(Checksum(MappedFile(fst_path).bytes()));
  json.info = {ModelStructureChecksum(model), TransitionChecksum(model), language_model, options.self_loop_scale,
               lexicon.options()};
  WriteFileAtomically(folder / "graph.json", ToJson(json).dump(2) + "\n");
}

Graph Graph::Load(const fs::path& folder, const hmm::HmmModel& model) {
  const fs::path fst_path = folder / "HCLG.fst", json_path = folder / "graph.json";
  const GraphJson json =
      WithContext([&] { return ParseJson(ReadFile(json_path)); }, [&] { return json_path.string(); });
  RequireFit(json.info, model, folder);
  if (Hex(Checksum(MappedFile(fst_path).bytes())) != json.fst_checksum) {
    Throw<InputError>("'{}' is not the file that graph.json describes: cut short or changed; build the graph again",
                      fst_path.string());
  }
  Graph graph;
  graph.info_ = json.info;
  auto lexicon = std::make_shared<const hmm::Lexicon>(
      hmm::Lexicon::Load(folder / "lexicon.txt", json.info.lexicon, model.phones()));
  CheckWords(ReadFile(folder / "words.txt"), *lexicon, folder / "words.txt");
  for (int32_t w = 0; w <= lexicon->num_words(); ++w) graph.words_.push_back(lexicon->Word(w));
  graph.lexicon_ = std::move(lexicon);
  graph.pdf_of_transition_.assign(static_cast<size_t>(model.transitions().num_transition_ids()) + 1, 0);
  for (size_t t = 1; t < graph.pdf_of_transition_.size(); ++t) {
    graph.pdf_of_transition_[t] = model.transitions().Pdf(static_cast<int32_t>(t));
  }
  graph.num_pdfs_ = model.num_pdfs();

  std::ifstream stream(fst_path, std::ios::binary);
  fst::FstReadOptions read_options(fst_path.string());
  read_options.mode = fst::FstReadOptions::MAP;
  const std::shared_ptr<const fst::StdConstFst> mapped(fst::StdConstFst::Read(stream, read_options));
  if (!mapped) Throw<InputError>("'{}' is no OpenFst file of type const; build the graph again", fst_path.string());
  graph.start_ = mapped->Start();
  const int num_states = mapped->NumStates();
  graph.states_.resize(static_cast<size_t>(num_states));
  const fst::StdArc* base = nullptr;
  size_t num_arcs = 0;
  for (int s = 0; s < num_states; ++s) {
    fst::ArcIteratorData<fst::StdArc> arcs;
    mapped->InitArcIterator(s, &arcs);
    // All arcs lie in one array, state after state.
    if (s == 0) base = arcs.arcs;
    GraphState& state = graph.states_[static_cast<size_t>(s)];
    state.epsilon_begin = static_cast<uint32_t>(arcs.arcs - base);
    state.emitting_begin = state.epsilon_begin + static_cast<uint32_t>(mapped->NumInputEpsilons(s));
    state.end = state.epsilon_begin + static_cast<uint32_t>(arcs.narcs);
    state.final_cost = mapped->Final(s).Value();
    num_arcs = state.end;
  }
  graph.arcs_ = {reinterpret_cast<const GraphArc*>(base), num_arcs};
  graph.owner_ = mapped;
  WithContext([&] { graph.Check(); }, [&] { return fst_path.string(); });
  return graph;
}

}  // namespace antiphon::decode
