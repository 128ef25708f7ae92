// antiphon align: flat start to tied triphones, and the alignments that networks are trained on.
#include "pipeline/align.h"

#include <nlohmann/json.hpp>

#include "command.h"
#include "processes.h"

namespace antiphon::app {
namespace {

void Align(pipeline::AlignRequest request, CommandContext& context) {
  request.seed = context.seed();
  InTeam(context, [&](Team& team, int threads) {
    const pipeline::AlignReport report = pipeline::Align(request, team, threads);
    if (!team.is_first()) return;
    context.SetResult(pipeline::ToJson(report).dump());
    context.PrintLine(pipeline::Sentence(report));
  });
}

REGISTER_COMMAND(
    "align", pipeline::AlignRequest, Align,
    {.summary = "train a GMM from transcribed speech and align it",
     .description = "Trains from a flat start: monophones, tied triphones, LDA+MLLT, speaker adaptation, as far as "
                    "--last-stage says. The model and the alignments of the last stage are what antiphon store and "
                    "antiphon graph take. With --model it aligns by a trained GMM or network instead.",
     .example = "antiphon align --data feats/train --lexicon lang/lexicon.txt --out exp/ali --last-stage sat\n"
                "antiphon align --model exp/net.safetensors --data feats/train --lexicon lang/lexicon.txt "
                "--out exp/ali-net\n"
                "antiphon align --model exp/net.safetensors --data recordings/ --transcripts transcripts.tsv --lexicon "
                "lang/lexicon.txt --out exp/ali-new",
     .required = {"data", "out"},
     .common = {"model", "last-stage", "transcripts", "channels", "features", "cmvn", "utt2spk", "adapt", "leaves",
                "gaussians", "map-unknown-words", "lexicon-options.silence-phones"}});

}  // namespace
}  // namespace antiphon::app
