// antiphon align: when each word was said; flat start to tied triphones, and the alignments that networks learn from.
#include "api/corpus_aligner.h"
#include "base/error.h"
#include "command.h"
#include "processes.h"

namespace antiphon::app {
namespace {

struct AlignCommandOptions {
  bool validate = false;
  pipeline::AlignRequest request;
  template <class V>
  void Visit(V& v) {
    v("validate", validate,
      "align nothing, but say what is wrong with the data: files, sound, words without pronunciation; problems give "
      "exit status 1");
    request.Visit(v);
  }
};

void Validate(const CorpusAligner& aligner, const std::string& data, CommandContext& context) {
  const CorpusCheck check = aligner.Check();
  context.SetResult(check.report);
  context.out() << check.text << std::flush;
  if (!check.fine()) Throw<InputError>("'{}' cannot be aligned as it is; what is wrong stands above", data);
}

void Align(const AlignCommandOptions& options, CommandContext& context) {
  const pipeline::AlignRequest& request = options.request;
  const CorpusAligner aligner = CorpusAlignerAccess::Make(request, HostOf(context));
  if (options.validate) return Validate(aligner, request.data, context);
  const AlignmentOutcome outcome = aligner.Run();
  if (!outcome.report.empty()) context.SetResult(outcome.report);
  if (outcome.partial) {
    Throw<InputError>("some files, texts or utterances of '{}' are not aligned; report.txt in '{}' has all, with why",
                      request.data, request.out);
  }
}

REGISTER_COMMAND(
    "align", AlignCommandOptions, Align,
    {.summary = "align speech with its text, and train mixtures for it",
     .description =
         "Says when each word and each phone was said. With --model, a bundle, a network or mixtures, it aligns by "
         "that. Without, it trains mixtures from a flat start: monophones, tied triphones, LDA+MLLT, speaker "
         "adaptation, as far as --last-stage says; their model and alignments are what antiphon store and antiphon "
         "graph take. Where audio itself is given, exit status 1 says that some of it was left out, or has another "
         "recording's text; the rest is aligned.",
     .example = "antiphon align --model mine.antiphon --data recordings/ --out exp/times --files TextGrid,json\n"
                "antiphon align --validate --model mine.antiphon --data recordings/ --out exp/times\n"
                "antiphon align --data feats/train --lexicon lang/lexicon.txt --out exp/ali --last-stage sat\n"
                "antiphon align --model exp/net.safetensors --data recordings/ --transcripts transcripts.tsv --lexicon "
                "lang/lexicon.txt --out exp/ali-new",
     .required = {"data", "out"},
     .common = {"model", "lexicon", "g2p", "files", "validate", "transcripts", "spelling", "channels", "gaps",
                "long-above", "last-stage", "adapt"}});

}  // namespace
}  // namespace antiphon::app
