// antiphon prepare: makes a data directory from audio and a transcript table, or checks one.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file.h"
#include "command.h"
#include "data/corpus/corpus_format.h"
#include "data/corpus/lhotse.h"
#include "data/data_dir.h"
#include "data/data_summary.h"
#include "data/lexicon_fit.h"
#include "data/recordings.h"
#include "data/transcript_table.h"
#include "g2p/model.h"
#include "hmm/lexicon.h"
#include "pipeline/new_words.h"

namespace antiphon::app {
namespace {

OneOf Layouts() {
  OneOf layouts{data::CorpusFormatRegistry::Get().Names()};
  layouts.names.insert(layouts.names.begin(), "none");
  return layouts;
}

struct PrepareCommandOptions {
  std::vector<std::string> paths;
  bool check = false;
  std::string from = "none", to = "none";
  std::string part, audio;
  std::string lexicon, g2p, complete_lexicon;
  int show = 20;
  data::PrepareOptions table;
  data::DataDirOptions dir;

  template <class V>
  void Visit(V& v) {
    v("paths", paths,
      "AUDIO (a folder or a file) TRANSCRIPTS.tsv|csv OUT; AUDIO OUT without transcripts; CORPUS OUT with --from; a "
      "data directory with --check, and OUT behind it with --to");
    v("from", from, Layouts(), "layout of CORPUS; none: audio and a table");
    v("part", part, "with --from: of the corpus, as its files or folders are named (train); empty: the only one");
    v("audio", audio, "with --from: folder of the audio, if it does not lie with the corpus");
    v("to", to, OneOf{{"none", "lhotse"}}, "write a data directory as manifests of this kind");
    v("check", check, "look for problems in a data directory and say what is in it; problems give exit status 1");
    v("lexicon", lexicon, "pronunciation lexicon that words are compared with");
    v("g2p", g2p, "what antiphon g2p train made of the lexicon, to pronounce the words that it lacks");
    v("complete-lexicon", complete_lexicon,
      "with --lexicon and --g2p: where to write the lexicon with the transcripts' words that it lacks");
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

void RequireTogether(const PrepareCommandOptions& options) {
  if (options.complete_lexicon.empty() && options.g2p.empty()) return;
  if (options.complete_lexicon.empty() || options.g2p.empty() || options.lexicon.empty()) {
    throw UsageError(
        "--complete-lexicon, --g2p and --lexicon belong together: the lexicon, what pronounces the words "
        "that it lacks, and where both go");
  }
}

void CompleteLexicon(const data::DataDir& dir, const PrepareCommandOptions& options, CommandContext& context) {
  if (options.complete_lexicon.empty()) return;
  const hmm::Lexicon lexicon = hmm::Lexicon::Load(options.lexicon);
  const g2p::Model model = g2p::Model::Load(options.g2p);
  pipeline::RequirePhones(model, lexicon, options.g2p);
  std::vector<std::string> words;
  for (const data::Utterance& utterance : dir.utterances()) {
    words.insert(words.end(), utterance.words.begin(), utterance.words.end());
  }
  const pipeline::NewWords added = pipeline::PronounceNewWords(lexicon, words, model, {}, context.threads());
  WriteFileAtomically(options.complete_lexicon, lexicon.ToText() + added.lines);
  context.Print("{}: the lexicon with pronunciations of {} more words", options.complete_lexicon, added.words.size());
  for (size_t i = 0; i < added.refused.size() && i < static_cast<size_t>(options.show); ++i) {
    context.PrintLine(added.refused[i]);
  }
}

void Check(const PrepareCommandOptions& options, CommandContext& context) {
  if (options.paths.size() != 1) throw UsageError("--check takes one data directory");
  const std::vector<data::DataProblem> problems = data::DataDir::Validate(options.paths[0], options.dir, true);
  PrintProblems(problems, options.show, context);
  for (const data::DataProblem& problem : problems) {
    if (problem.fatal) Throw<InputError>("'{}' cannot be used: {}: {}", options.paths[0], problem.where, problem.what);
  }
  const auto dir = data::DataDir::Load(options.paths[0], options.dir);
  const data::DataSummary summary = PrepareReport(dir, problems, options, context);
  CompleteLexicon(dir, options, context);
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

void Convert(const PrepareCommandOptions& options, CommandContext& context) {
  if (options.paths.size() != 2) throw UsageError("--to takes a data directory and OUT");
  const auto dir = data::DataDir::Load(options.paths[0], options.dir);
  data::WriteLhotse(dir, options.paths[1]);
  context.Print("{} utterances as {} in {}", dir.utterances().size(), options.to, options.paths[1]);
}

data::DataDir Joined(const PrepareCommandOptions& options, std::vector<data::DataProblem>& problems) {
  const auto& paths = options.paths;
  if (options.from == "none") {
    return paths.size() == 3 ? data::PrepareDataDir(paths[0], paths[1], options.table, problems)
                             : data::DataDirOfRecordings(paths[0], options.table, problems);
  }
  const auto format = data::CorpusFormatRegistry::Get().Create(options.from);
  const data::Corpus corpus = format->Read(paths[0], options.part, problems);
  const std::filesystem::path audio = options.audio.empty() ? corpus.audio : std::filesystem::path(options.audio);
  return data::JoinTranscripts(audio, corpus.rows, paths[0], options.table, problems);
}

void Prepare(const PrepareCommandOptions& options, CommandContext& context) {
  RequireTogether(options);
  if (options.check) return Check(options, context);
  if (options.to != "none") return Convert(options, context);
  const size_t count = options.paths.size();
  if (options.from != "none" && count != 2) throw UsageError("--from takes CORPUS OUT");
  if (count != 2 && count != 3) {
    throw UsageError("expected AUDIO [TRANSCRIPTS.tsv|csv] OUT, or --check DIRECTORY");
  }
  if (options.from == "none" && !(options.part.empty() && options.audio.empty())) {
    throw UsageError("--part and --audio belong to --from");
  }
  RefuseTable(options.paths.back());
  std::vector<data::DataProblem> problems;
  const data::DataDir dir = data::WithDurations(Joined(options, problems), problems, context.threads());
  const std::string& out = options.paths.back();
  dir.Write(out);
  PrintProblems(problems, options.show, context);
  PrepareReport(dir, problems, options, context);
  CompleteLexicon(dir, options, context);
  const bool has_words = count == 3 || options.from != "none";
  context.Print("written to {}{}", out, has_words ? "" : "; without transcripts, enough to be recognised");
}

}  // namespace

REGISTER_COMMAND(
    "prepare", PrepareCommandOptions, Prepare,
    {.summary = "make a data directory from audio and transcripts, or check one",
     .description =
         "The table has a row per audio file: its name and its text, optionally speaker and gender. Rows that "
         "cannot be used are named and left out. Without a table every file is an utterance without words, enough to "
         "be recognised. With --from a corpus is read as others lay it out; with --to a data directory is written for "
         "another program.",
     .example = "antiphon prepare recordings/ transcripts.tsv data/train --case upper\n"
                "antiphon prepare calls/ data/calls --channels each\n"
                "antiphon prepare --from common-voice cv-corpus/cy --part train data/cy --strip-punctuation\n"
                "antiphon prepare --to lhotse data/train manifests/train\n"
                "antiphon prepare --check data/train --lexicon lang/lexicon.txt\n"
                "antiphon prepare --check data/train --lexicon lang/lexicon.txt --g2p lang/english.g2p "
                "--complete-lexicon lang/all.txt",
     .positionals = {"paths"}});

}  // namespace antiphon::app
