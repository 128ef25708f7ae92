#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/utf8.h"
#include "decode/graph/const_fst.h"
#include "decode/graph/const_fst_writer.h"
#include "decode/graph/graph.h"
#include "decode/graph/graph_builder.h"
#include "decode/graph/graph_folder.h"
#include "decode/graph/graph_json.h"
#include "decode/graph/parts_builder.h"
#include "hmm/graph/openfst.h"

namespace antiphon::decode {
namespace {

namespace fs = std::filesystem;

static_assert(sizeof(GraphArc) == sizeof(fst::StdArc) && offsetof(GraphArc, word) == offsetof(fst::StdArc, olabel) &&
              offsetof(GraphArc, cost) == offsetof(fst::StdArc, weight) &&
              offsetof(GraphArc, next_state) == offsetof(fst::StdArc, nextstate));

// What graph.json has checksums of.
constexpr const char* kPartFiles[] = {"G.safetensors", "HCL.fst", "pronunciations.safetensors"};

void CheckWords(const std::string& text, const hmm::Lexicon& lexicon, const fs::path& path) {
  if (ComposeLines(text, path.string()) != SymbolTable(lexicon)) {
    Throw<InputError>("'{}' is not the word table of lexicon.txt beside it; build the graph again", path.string());
  }
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
  GraphFolder files(folder);
  WriteConstFst(graph, files.New("HCLG.fst"));
  files.Write("words.txt", SymbolTable(lexicon));
  files.Write("lexicon.txt", lexicon.ToText());
  GraphJson json;
  json.checksums["HCLG.fst"] = files.NewChecksum("HCLG.fst");
  json.info = DescribeGraph(model, lexicon, language_model, options);
  files.Write("graph.json", ToText(json));
  files.Commit();
}

Graph Graph::Load(const fs::path& folder, const hmm::HmmModel& model) {
  const fs::path fst_path = folder / "HCLG.fst", json_path = folder / "graph.json";
  const GraphJson json =
      WithContext([&] { return ParseGraphJson(ReadFile(json_path)); }, [&] { return json_path.string(); });
  RequireFit(json.info, model, folder);
  const bool in_parts = json.format == kPartsFormat;
  if (in_parts) {
    for (const char* file : kPartFiles) RequireChecksum(json, folder, file);
  } else {
    RequireChecksum(json, folder, "HCLG.fst");
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
  if (in_parts) {
    graph.parts_ =
        std::make_shared<const GraphParts>(LoadLexiconGraph(folder, model, *graph.lexicon_),
                                           WordAutomaton::Load(folder / "G.safetensors", graph.lexicon_->num_words()));
    return graph;
  }

  const auto file = std::make_shared<const MappedFile>(fst_path);
  WithContext(
      [&] {
        const ConstFst fst = ParseConstFst(file->bytes());
        graph.start_ = fst.start >= 0 && fst.start < std::ssize(fst.states) ? static_cast<int32_t>(fst.start) : -1;
        graph.states_ = StatesOf(fst);
        graph.arcs_ = fst.arcs;
        graph.owner_ = file;
        graph.Check();
      },
      [&] { return fmt::format("'{}' is damaged; build the graph again", fst_path.string()); });
  return graph;
}

}  // namespace antiphon::decode
