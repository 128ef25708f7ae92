// antiphon prepare: makes a data directory from audio and a transcript table, or checks one.
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "command.h"
#include "data/data_dir.h"
#include "data/data_summary.h"
#include "data/transcript_table.h"

namespace antiphon::app {
namespace {

struct PrepareCommandOptions {
  std::vector<std::string> paths;
  bool check = false;
  std::string lexicon;
  int show = 20;
  data::PrepareOptions table;
  data::DataDirOptions dir;

  template <class V>
  void Visit(V& v) {
    v("paths", paths, "AUDIO_FOLDER TRANSCRIPTS.tsv|csv OUT, or with --check the data directory");
    v("check", check, "look for problems in a data directory and say what is in it; problems give exit status 1");
    v("lexicon", lexicon, "pronunciation lexicon that words are compared with");
    v("show", show, Range{0, 1000000}, "problems and out-of-lexicon words shown");
    table.Visit(v);
    dir.Visit(v);
  }
};

void PrintProblems(const std::vector<data::DataProblem>& problems, int show, CommandContext& context) {
  for (size_t i = 0; i < problems.size(); ++i) {
    if (i == static_cast<size_t>(show)) {
      context.Print("… and {} more problems (--show {})", problems.size() - i, problems.size());
      return;
    }
    context.Print("{}: {}{}", problems[i].where, problems[i].fatal ? "error: " : "", problems[i].what);
  }
}

void Report(const data::DataDir& dir, const std::vector<data::DataProblem>& problems,
            const PrepareCommandOptions& options, CommandContext& context) {
  std::optional<std::set<std::string>> lexicon;
  if (!options.lexicon.empty()) lexicon = data::ReadLexiconWords(options.lexicon);
  const data::DataSummary summary = data::Summarise(dir, lexicon ? &*lexicon : nullptr, context.threads());
  std::string text = data::FormatSummary(summary, options.show);
  text.pop_back();
  context.PrintLine(text);
  nlohmann::json json = nlohmann::json::parse(data::SummaryToJson(summary));
  json["problems"] = nlohmann::json::array();
  for (const data::DataProblem& p : problems)
    json["problems"].push_back({{"where", p.where}, {"what", p.what}, {"fatal", p.fatal}});
  context.SetResult(json.dump());
}

void Check(const PrepareCommandOptions& options, CommandContext& context) {
  if (options.paths.size() != 1) throw UsageError("--check takes one data directory");
  const std::vector<data::DataProblem> problems = data::DataDir::Validate(options.paths[0], options.dir, true);
  PrintProblems(problems, options.show, context);
  for (const data::DataProblem& problem : problems) {
    if (problem.fatal) Throw<InputError>("'{}' cannot be used: {}: {}", options.paths[0], problem.where, problem.what);
  }
  Report(data::DataDir::Load(options.paths[0], options.dir), problems, options, context);
  if (!problems.empty()) Throw<InputError>("'{}' has {} problems", options.paths[0], problems.size());
}

void Prepare(const PrepareCommandOptions& options, CommandContext& context) {
  if (options.check) return Check(options, context);
  if (options.paths.size() != 3) {
    throw UsageError("expected AUDIO_FOLDER TRANSCRIPTS.tsv|csv OUT, or --check DIRECTORY");
  }
  std::vector<data::DataProblem> problems;
  data::DataDir dir = data::PrepareDataDir(options.paths[0], options.paths[1], options.table, problems);
  data::FillDurations(dir, context.threads());
  dir.Write(options.paths[2]);
  PrintProblems(problems, options.show, context);
  Report(dir, problems, options, context);
  context.Print("written to {}", options.paths[2]);
}

}  // namespace

REGISTER_COMMAND(
    "prepare", PrepareCommandOptions, Prepare,
    {.summary = "make a data directory from audio and transcripts, or check one",
     .description =
         "The table has a row per audio file: its name and its text, optionally speaker and gender. Rows that "
         "cannot be used are named and left out.",
     .example = "antiphon prepare recordings/ transcripts.tsv data/train --case upper\n"
                "antiphon prepare --check data/train --lexicon lang/lexicon.txt",
     .positionals = {"paths"}});

}  // namespace antiphon::app
