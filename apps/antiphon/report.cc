// antiphon report: one page about an experiment: recognised words, training, configuration.
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "command.h"
#include "pipeline/tuned_hypotheses.h"
#include "report/pages/scoring_report.h"
#include "report/pages/training_report.h"
#include "score/wer.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct ReportCommandOptions {
  std::string out;
  std::string title = "From recordings to words";
  std::string run;
  std::vector<std::string> references;
  std::vector<std::string> hypotheses;
  std::vector<std::string> names;
  std::string graph;
  int examples = 12;

  template <class V>
  void Visit(V& v) {
    v("out", out, "HTML file to write");
    v("title", title, "headline of the page");
    v("run", run, "folder of a training run, for its curves; empty: none");
    v("references", references, "what was said: data directories or Kaldi text files");
    v("hypotheses", hypotheses, "what was recognised: Kaldi text files or folders with text, one per reference");
    v("names", names, "names of the sets, one per reference; empty: those of the references' folders");
    v("graph", graph,
      "folder of the graph that was decoded with: a set on which weights were chosen (decode --tune) is then shown as "
      "these weights recognise it");
    v("examples", examples, Range{0, 10000}, "utterances with errors shown per set");
  }
};

fs::path TextOf(const fs::path& path) { return fs::is_directory(path) ? path / "text" : path; }

// As antiphon score with the same seed.
report::ScoredSet ScoreSet(const fs::path& reference, const fs::path& hypotheses, const std::string& name,
                           const fs::path& graph, uint64_t seed) {
  const fs::path folder = fs::is_directory(reference) ? reference : reference.parent_path();
  std::map<std::string, std::string> speakers;
  if (fs::exists(folder / "utt2spk")) speakers = score::ReadUtteranceMap(folder / "utt2spk");
  score::ScoreOptions options;
  options.seed = static_cast<int64_t>(seed);
  std::string shown = name.empty() ? folder.filename().string() : name;
  score::Transcripts recognised;
  if (!pipeline::ChoseWeights(hypotheses)) {
    recognised = score::ReadTranscripts(TextOf(hypotheses));
  } else if (!graph.empty()) {
    recognised = pipeline::TunedHypotheses(hypotheses, graph);
    shown += " (weights chosen on it)";
  } else {
    recognised = score::ReadTranscripts(TextOf(hypotheses));
    shown += " (before weights were chosen)";
  }
  return {shown, score::Score(score::ReadTranscripts(TextOf(reference)), recognised, speakers, options)};
}

void Report(const ReportCommandOptions& options, CommandContext& context) {
  if (options.references.size() != options.hypotheses.size()) {
    Throw<UsageError>("{} references, but {} hypotheses: give one for each", options.references.size(),
                      options.hypotheses.size());
  }
  if (!options.names.empty() && options.names.size() != options.references.size()) {
    Throw<UsageError>("{} references, but {} names: give one for each, or none", options.references.size(),
                      options.names.size());
  }
  if (options.run.empty() && options.references.empty())
    throw UsageError("nothing to report: give --run or --references");
  std::vector<report::ScoredSet> sets;
  for (size_t i = 0; i < options.references.size(); ++i) {
    sets.push_back(ScoreSet(options.references[i], options.hypotheses[i], options.names.empty() ? "" : options.names[i],
                            options.graph, context.seed()));
  }
  report::HtmlReport page(options.title, options.run);
  report::AddScoringSections(page, sets, options.examples);
  if (!options.run.empty()) {
    if (!sets.empty()) page.AddSection("The network");
    report::AddTrainingSections(page, options.run);
  }
  WriteFileAtomically(options.out, page.Render());
  context.Print("report: {}", options.out);
}

}  // namespace

REGISTER_COMMAND(
    "report", ReportCommandOptions, Report,
    {.summary = "one page about an experiment, to look at in a browser",
     .description = "The page needs nothing but itself: charts are inside, no network is used.",
     .example = "antiphon report exp/report.html --run exp/dnn --references data/test --hypotheses exp/decode_test",
     .positionals = {"out"},
     .required = {"out"}});

}  // namespace antiphon::app
