// antiphon ivectors: who speaks, as a vector per speaker for a network to read beside the features.
#include "pipeline/ivectors.h"

#include <nlohmann/json.hpp>

#include "command.h"

namespace antiphon::app {
namespace {

void Ivectors(pipeline::IvectorRequest request, CommandContext& context) {
  request.seed = context.seed();
  request.threads = context.threads();
  const pipeline::IvectorReport report = pipeline::MakeIvectors(request);
  context.PrintLine(pipeline::Sentence(report));
  context.SetResult(pipeline::ToJson(report).dump());
}

REGISTER_COMMAND(
    "ivectors", pipeline::IvectorRequest, Ivectors,
    {.summary = "a vector per speaker that a network reads beside the features",
     .description = "Trains an extractor (a mixture of Gaussians, and in which directions speakers move it), or takes "
                    "one, and writes what it makes of each speaker. Give the table to store and decode as "
                    "--speaker-vectors: the network learns to make use of it.",
     .example = "antiphon ivectors --features train/feats.scp --utt2spk train/utt2spk exp/ivectors/train\n"
                "antiphon ivectors --features test/feats.scp --utt2spk test/utt2spk --extractor "
                "exp/ivectors/train/extractor.safetensors exp/ivectors/test",
     .positionals = {"out"},
     .required = {"out", "features"}});

}  // namespace
}  // namespace antiphon::app
