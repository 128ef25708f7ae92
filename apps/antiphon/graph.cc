// antiphon graph: the search network from a model, a lexicon and what may be said.
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "command.h"
#include "decode/graph/graph_builder.h"
#include "decode/graph/parts_builder.h"
#include "hmm/graph/openfst.h"
#include "hmm/hmm_file.h"
#include "pipeline/aligned_pronunciations.h"
#include "pipeline/bundle.h"
#include "pipeline/language_source.h"

namespace antiphon::app {
namespace {

struct GraphCommandOptions {
  std::string model, lexicon, pronunciations, arpa, words, grammar, out;
  double silence_probability = 0.5;
  std::string optional_silence = "SIL";
  bool on_the_fly = false;
  decode::GraphBuildOptions build;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file (GMM or network) whose phones and tied states the graph is for");
    v("lexicon", lexicon, "pronunciation lexicon (lexicon.txt or lexiconp.txt)");
    v("pronunciations", pronunciations,
      "folder that antiphon pronunciations left (or Kaldi's dictionary): probabilities of pronunciations and pauses, "
      "in "
      "place of the lexicon's and of --silence-probability");
    v("arpa", arpa, "n-gram language model, plain or gzipped");
    v("words", words, "word list: any sequence of these words, all equally likely");
    v("grammar", grammar, "grammar as OpenFst text acceptor over words");
    v("out", out, "folder of the graph");
    v("silence-probability", silence_probability, Range{0.01, 0.99},
      "probability of a pause before, between and after words");
    v("optional-silence", optional_silence, "phone of that pause");
    v("on-the-fly", on_the_fly,
      "keep lexicon and language model apart, in a sixth of the room; searches put them together as they come along");
    build.Visit(v);
  }
  pipeline::LanguageSource source() const { return {arpa, words, grammar}; }
};

std::string DescribeSource(const GraphCommandOptions& options) {
  const std::string text = Describe(options.source());
  if (options.pronunciations.empty()) return text;
  const auto file = std::filesystem::path(options.pronunciations) / pipeline::kEntriesFile;
  return text + ", " + pipeline::DescribeFile("pronunciations", file.string());
}

void BuildGraph(const GraphCommandOptions& options, CommandContext& context) {
  if (options.source().count() != 1) throw UsageError("give one of --arpa, --words and --grammar: what may be said");
  if (!options.pronunciations.empty() && context.config().Has("silence-probability")) {
    throw UsageError("--pronunciations brings the probabilities of pauses along: leave --silence-probability out");
  }
  const auto start = std::chrono::steady_clock::now();
  const hmm::HmmModel model = hmm::LoadHmm(pipeline::PartsAt(options.model).model);
  hmm::LexiconOptions lexicon_options;
  lexicon_options.silence_probability = options.silence_probability;
  lexicon_options.optional_silence = options.optional_silence;
  lexicon_options.position_dependent = model.phones().position_dependent();
  lexicon_options.silence_phones = model.phones().SilenceNames();
  const hmm::Lexicon lexicon = hmm::Lexicon::Load(options.lexicon, lexicon_options, model.phones());
  std::optional<hmm::PronunciationModel> pronunciations;
  if (!options.pronunciations.empty()) {
    pronunciations = pipeline::ReadPronunciations(options.pronunciations, lexicon);
  }
  fst::StdVectorFst grammar, graph;
  const std::vector<std::string> left_out = ReadGrammar(options.source(), lexicon, &grammar);
  const decode::GraphBuildOptions& build = options.build;
  const hmm::PronunciationModel* const said = pronunciations ? &*pronunciations : nullptr;
  size_t num_states = 0, num_arcs = 0;
  if (options.on_the_fly) {
    const auto parts = decode::BuildGraphParts(model, lexicon, std::move(grammar), build, said);
    decode::SaveParts(*parts, model, lexicon, said, DescribeSource(options), build, options.out);
    num_states = parts->lexicon().states().size() + static_cast<size_t>(parts->words().num_states());
    num_arcs = parts->lexicon().arcs().size() + static_cast<size_t>(parts->words().num_arcs());
  } else {
    decode::BuildGraphFst(model, lexicon, grammar, build, &graph, said);
    decode::SaveGraph(graph, model, lexicon, DescribeSource(options), build, options.out);
    num_states = static_cast<size_t>(graph.NumStates());
    for (int s = 0; s < graph.NumStates(); ++s) num_arcs += graph.NumArcs(s);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  context.Print("graph of {} states and {} arcs in {} ({:.1f} s)", num_states, num_arcs, options.out, seconds);
  context.SetResult(
      nlohmann::ordered_json(
          {{"states", num_states}, {"arcs", num_arcs}, {"left_out_words", left_out.size()}, {"seconds", seconds}})
          .dump(2));
}

REGISTER_COMMAND(
    "graph", GraphCommandOptions, BuildGraph,
    {.summary = "build the search network that decoding walks over",
     .description = "Composes lexicon, language model (ARPA, word list or grammar) and the model's states; the graph "
                    "belongs to this model and is refused with others.",
     .example = "antiphon graph --model exp/tri.safetensors --lexicon lang/lexicon.txt --arpa lang/lm.arpa.gz "
                "exp/graph",
     .positionals = {"out"},
     .required = {"model", "lexicon", "out"}});

}  // namespace
}  // namespace antiphon::app
