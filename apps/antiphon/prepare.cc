// antiphon prepare: makes a data directory from audio and a transcript table, or checks one.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "command.h"
#include "data/data_dir.h"
#include "data/data_summary.h"
#include "data/lexicon_fit.h"
#include "data/recordings.h"
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
    v("paths", paths,
      "AUDIO (a folder or a file) TRANSCRIPTS.tsv|csv OUT; AUDIO OUT without transcripts; with --check the data "
      "directory");
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

// Returns what was found; says with which spelling more words would be known.
data::DataSummary PrepareReport(const data::DataDir& dir, const std::vector<data::DataProblem>& problems,
                                const PrepareCommandOptions& options, CommandContext& context) {
  std::optional<std::set<std::string>> lexicon;
  if (!options.lexicon.empty()) lexicon = data::ReadLexiconWords(options.lexicon);
  const data::DataSummary summary = data::Summarise(dir, lexicon ? &*lexicon : nullptr, context.threads());
  std::string text = data::FormatSummary(summary, options.show);
  text.pop_back();
  context.PrintLine(text);
  nlohmann::json json = nlohmann::json::parse(data::SummaryToJson(summary));
  if (const auto advice = lexicon ? data::AdviseSpelling(summary, *lexicon) : data::SpellingAdvice{};
      !advice.options.empty()) {
    context.Print("made with {}, {:.1f} % of the running words would be known", advice.options,
                  100 * advice.known_share);
    json["advice"] = {{"options", advice.options}, {"known_share", advice.known_share}};
  }
  json["problems"] = nlohmann::json::array();
  for (const data::DataProblem& p : problems)
    json["problems"].push_back({{"where", p.where}, {"what", p.what}, {"fatal", p.fatal}});
  context.SetResult(json.dump());
  return summary;
}

void Check(const PrepareCommandOptions& options, CommandContext& context) {
  if (options.paths.size() != 1) throw UsageError("--check takes one data directory");
  const std::vector<data::DataProblem> problems = data::DataDir::Validate(options.paths[0], options.dir, true);
  PrintProblems(problems, options.show, context);
  for (const data::DataProblem& problem : problems) {
    if (problem.fatal) Throw<InputError>("'{}' cannot be used: {}: {}", options.paths[0], problem.where, problem.what);
  }
  const data::DataSummary summary =
      PrepareReport(data::DataDir::Load(options.paths[0], options.dir), problems, options, context);
  if (!problems.empty()) Throw<InputError>("'{}' has {} problems", options.paths[0], problems.size());
  if (data::MostWordsUnknown(summary)) {
    Throw<InputError>(
        "{} of {} running words are not in '{}', most often '{}': antiphon align would refuse it. Either the lexicon "
        "belongs to another language, or the transcripts are spelt in another way",
        summary.oov_running_words, summary.running_words, options.lexicon, summary.oov.front().first);
  }
}

// AUDIO TABLE with OUT forgotten would write into the table's place.
void RefuseTable(const std::string& out) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(out, none)) return;
  Throw<UsageError>("'{}' is a file where the folder to write is expected: AUDIO [TRANSCRIPTS.tsv|csv] OUT", out);
}

void Prepare(const PrepareCommandOptions& options, CommandContext& context) {
  if (options.check) return Check(options, context);
  const size_t count = options.paths.size();
  if (count != 2 && count != 3) {
    throw UsageError("expected AUDIO [TRANSCRIPTS.tsv|csv] OUT, or --check DIRECTORY");
  }
  RefuseTable(options.paths.back());
  std::vector<data::DataProblem> problems;
  const data::DataDir dir =
      data::WithDurations(count == 3 ? data::PrepareDataDir(options.paths[0], options.paths[1], options.table, problems)
                                     : data::DataDirOfRecordings(options.paths[0], options.table, problems),
                          problems, context.threads());
  const std::string& out = options.paths.back();
  dir.Write(out);
  PrintProblems(problems, options.show, context);
  PrepareReport(dir, problems, options, context);
  context.Print("written to {}{}", out, count == 2 ? "; without transcripts, enough to be recognised" : "");
}

}  // namespace

REGISTER_COMMAND(
    "prepare", PrepareCommandOptions, Prepare,
    {.summary = "make a data directory from audio and transcripts, or check one",
     .description =
         "The table has a row per audio file: its name and its text, optionally speaker and gender. Rows that "
         "cannot be used are named and left out. Without a table every file is an utterance without words, enough to "
         "be "
         "recognised.",
     .example = "antiphon prepare recordings/ transcripts.tsv data/train --case upper\n"
                "antiphon prepare calls/ data/calls --channels each\n"
                "antiphon prepare --check data/train --lexicon lang/lexicon.txt",
     .positionals = {"paths"}});

}  // namespace antiphon::app
