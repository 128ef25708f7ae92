// antiphon decode: from features and a search graph to words, lattices, times and confidences.
#include "pipeline/decode.h"

#include <nlohmann/json.hpp>

#include "command.h"
#include "processes.h"

namespace antiphon::app {
namespace {

void Decode(pipeline::DecodeRequest request, CommandContext& context) {
  request.seed = context.seed();
  InTeam(context, [&](Team& team, int threads) {
    const pipeline::DecodeReport report = pipeline::Decode(request, team, threads);
    if (!team.is_first()) return;
    for (const std::string& sentence : pipeline::Sentences(report)) context.PrintLine(sentence);
    context.SetResult(pipeline::ToJson(report).dump(2));
  });
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
