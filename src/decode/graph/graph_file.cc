#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/temporary_file.h"
#include "base/utf8.h"
#include "decode/graph/const_fst.h"
#include "decode/graph/graph.h"
#include "decode/graph/graph_builder.h"
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
  if (ComposeLines(text, path.string()) != SymbolTable(lexicon)) {
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

// OpenFst by itself would go on after a failure, print a line and return false, without the system's reason.
void WriteConstFst(const fst::StdConstFst& graph, AtomicFile& file) {
  try {
    file.stream().exceptions(std::ios::badbit | std::ios::failbit);
    fst::FstWriteOptions options(file.path().string());
    options.align = true;
    graph.Write(file.stream(), options);
    file.stream().flush();
  } catch (const std::ios_base::failure&) {
    // Whoever removes the file must not be thrown at.
    file.stream().exceptions(std::ios::goodbit);
    file.CheckStream();
    throw;
  }
  file.stream().exceptions(std::ios::goodbit);
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

std::string ModelStructureChecksum(const hmm::HmmModel& model) { return model.StructureChecksum(); }

void SaveGraph(const fst::StdVectorFst& graph, const hmm::HmmModel& model, const hmm::Lexicon& lexicon,
               const std::string& language_model, const GraphBuildOptions& options, const fs::path& folder) {
  const fs::path fst_path = folder / "HCLG.fst";
  AtomicFile fst_file(fst_path), words(folder / "words.txt"), pronunciations(folder / "lexicon.txt"),
      description(folder / "graph.json");
  WriteConstFst(fst::StdConstFst(graph), fst_file);
  words.stream() << SymbolTable(lexicon);
  pronunciations.stream() << lexicon.ToText();
  GraphJson json;
  json.fst_checksum = Hex(Checksum(MappedFile(TemporaryPath(fst_path)).bytes()));
  json.info = {ModelStructureChecksum(model), TransitionChecksum(model), language_model, SelfLoopScale(options, model),
               lexicon.options()};
  description.stream() << ToJson(json).dump(2) << "\n";
  for (AtomicFile* file : {&fst_file, &words, &pronunciations, &description}) {
    file->stream().flush();
    file->CheckStream();
  }
  // Everything has its place on the disk. Without graph.json there is no graph: it goes first and comes back last.
  std::error_code ignored;
  fs::remove(folder / "graph.json", ignored);
  for (AtomicFile* file : {&fst_file, &words, &pronunciations, &description}) file->Commit();
}

Graph Graph::Load(const fs::path& folder, const hmm::HmmModel& model) {
  const fs::path fst_path = folder / "HCLG.fst", json_path = folder / "graph.json";
  const GraphJson json =
      WithContext([&] { return ParseJson(ReadFile(json_path)); }, [&] { return json_path.string(); });
  RequireFit(json.info, model, folder);
  const auto file = std::make_shared<const MappedFile>(fst_path);
  if (Hex(Checksum(file->bytes())) != json.fst_checksum) {
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

  WithContext(
      [&] {
        const ConstFst fst = ParseConstFst(file->bytes());
        graph.start_ = fst.start >= 0 && fst.start < std::ssize(fst.states) ? static_cast<int32_t>(fst.start) : -1;
        graph.states_.reserve(fst.states.size());
        for (const ConstFst::State& s : fst.states) {
          graph.states_.push_back(
              {s.first_arc, s.first_arc + s.num_input_epsilons, s.first_arc + s.num_arcs, s.final_cost});
        }
        graph.arcs_ = fst.arcs;
        graph.owner_ = file;
        graph.Check();
      },
      [&] { return fmt::format("'{}' is damaged; build the graph again", fst_path.string()); });
  return graph;
}

}  // namespace antiphon::decode
