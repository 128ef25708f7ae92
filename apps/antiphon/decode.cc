// antiphon decode: from features and a search graph to words, lattices, times and confidences.
#include "api/corpus_decoder.h"
#include "command.h"
#include "processes.h"

namespace antiphon::app {
namespace {

void Decode(const pipeline::DecodeRequest& request, CommandContext& context) {
  const DecodingOutcome outcome = CorpusDecoderAccess::Make(request, HostOf(context)).Run();
  if (!outcome.summary.empty()) context.SetResult(outcome.summary);
}

REGISTER_COMMAND(
    "decode", pipeline::DecodeRequest, Decode,
    {.summary = "recognise recordings: a data directory, or audio files",
     .description = "Beam search over the graph; writes text, times, confidences, n-best and lattices, and prints "
                    "the word error rate if the data have transcripts.",
     .example = "antiphon decode --model exp/net.safetensors --graph exp/graph --tune data/dev exp/decode-dev\n"
                "antiphon decode --model exp/net.safetensors --graph exp/graph --weights "
                "exp/decode-dev/weights.toml data/test exp/decode-test\n"
                "antiphon decode --model exp/net.safetensors --graph exp/graph calls/ exp/calls --channels each\n"
                "antiphon decode --model mine.antiphon calls/ exp/calls",
     .positionals = {"data", "out"},
     .required = {"model", "data", "out"},
     .common = {"weights",   "tune",      "lm-weight",  "word-penalty", "beam",           "nbest",      "lattices",
                "hotwords",  "word-list", "add-words",  "lm",           "rescore-arpa",   "graph-arpa", "profile",
                "cut-above", "channels",  "audio-root", "features",     "nnet.precision", "nnet.lazy",  "vad"}});

}  // namespace
}  // namespace antiphon::app
