// antiphon score: word and character error rates of a set of hypotheses.
#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"
#include "command.h"
#include "score/wer.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct ScoreCommandOptions {
  std::string reference;
  std::string hypotheses;
  bool cer = false;
  bool per_speaker = false;
  bool per_utterance = false;
  std::string utt2spk;
  std::string alignments;
  score::ScoreOptions score;

  template <class V>
  void Visit(V& v) {
    v("reference", reference, "what was said: Kaldi text, CTM (*.ctm), or a data directory with text and utt2spk");
    v("hypotheses", hypotheses, "what was recognised: Kaldi text, CTM (*.ctm), or a folder with text");
    v("cer", cer, "count characters (code points, blanks removed) instead of words");
    v("per-speaker", per_speaker, "show every speaker; needs utt2spk");
    v("per-utterance", per_utterance, "with --json: the counts of every utterance too");
    v("utt2spk", utt2spk, "file with utterance and speaker per line");
    v("alignments", alignments, "write reference and hypothesis one above the other to this file; '-': print them");
    score.Visit(v);
  }
};

fs::path TextFile(const std::string& path) { return fs::is_directory(path) ? fs::path(path) / "text" : fs::path(path); }

std::map<std::string, std::string> Speakers(const ScoreCommandOptions& options) {
  if (!options.utt2spk.empty()) return score::ReadUtteranceMap(options.utt2spk);
  const fs::path beside = fs::path(options.reference) / "utt2spk";
  if (fs::is_directory(options.reference) && fs::exists(beside)) return score::ReadUtteranceMap(beside);
  if (options.per_speaker) {
    throw UsageError("--per-speaker needs --utt2spk FILE, or a data directory with utt2spk as reference");
  }
  return {};
}

void Score(const ScoreCommandOptions& options, CommandContext& context) {
  score::ScoreOptions score_options = options.score;
  score_options.unit = options.cer ? "character" : "word";
  score_options.seed = static_cast<int64_t>(context.seed());
  const score::Report report =
      score::Score(score::ReadTranscripts(TextFile(options.reference)),
                   score::ReadTranscripts(TextFile(options.hypotheses)), Speakers(options), score_options);
  if (options.alignments == "-") {
    context.PrintLine(score::FormatAlignments(report));
  } else if (!options.alignments.empty()) {
    WriteFileAtomically(options.alignments, score::FormatAlignments(report));
  }
  const std::string summary = score::FormatSummary(report, options.per_speaker);
  context.PrintLine(summary.substr(0, summary.size() - 1));
  context.SetResult(score::FormatJson(report, options.per_utterance));
}

}  // namespace

REGISTER_COMMAND(
    "score", ScoreCommandOptions, Score,
    {.summary = "word or character error rate of recognised text",
     .description = "Gives substitutions, deletions and insertions, a bootstrap confidence interval over "
                    "utterances, speakers, and an alignment to read.",
     .example = "antiphon score data/test exp/decode/text --per-speaker --alignments exp/decode/errors.txt",
     .positionals = {"reference", "hypotheses"},
     .required = {"reference", "hypotheses"}});

}  // namespace antiphon::app
