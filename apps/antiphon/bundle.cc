// antiphon bundle: a recogniser in one folder or file.
#include "pipeline/bundle.h"

#include <nlohmann/json.hpp>

#include "command.h"

namespace antiphon::app {
namespace {

void Bundle(const pipeline::BundleRequest& request, CommandContext& context) {
  const nlohmann::ordered_json card = pipeline::WriteBundle(request);
  context.Print("{}: {:.1f} MB, {} words. To listen with it: antiphon listen --model {} --microphone", request.out,
                card["bytes"].get<double>() / 1e6, card["words"].get<size_t>(), request.out);
  context.SetResult(card.dump(2));
}

REGISTER_COMMAND(
    "bundle", pipeline::BundleRequest, Bundle,
    {.summary = "put a recogniser into one folder or file",
     .description =
         "Model, graph, weights and lexicon with a card that says what they are and checksums. Commands take "
         "it as --model, and then need no --graph and --weights.",
     .example = "antiphon bundle exp/demo exp/demo/demo.antiphon\n"
                "antiphon decode --model exp/demo/demo.antiphon calls/ exp/calls",
     .positionals = {"experiment", "out"},
     .required = {"out"},
     .common = {"model", "graph", "weights", "g2p", "vad", "written", "name", "licence", "speech"}});

}  // namespace
}  // namespace antiphon::app
