// antiphon store: joins features and alignment to the frame store that training reads.
#include "pipeline/store.h"

#include <nlohmann/json.hpp>

#include "command.h"

namespace antiphon::app {
namespace {

void Store(const pipeline::StoreRequest& request, CommandContext& context) {
  const pipeline::StoreReport report = pipeline::Store(request, context.threads());
  for (const std::string& sentence : pipeline::Sentences(report)) context.PrintLine(sentence);
  context.SetResult(pipeline::ToJson(report).dump());
}

}  // namespace

REGISTER_COMMAND(
    "store", pipeline::StoreRequest, Store,
    {.summary = "join features and alignment to a frame store for training",
     .description = "Features are normalised, compressed and kept beside one pdf-id per frame; context is spliced when "
                    "training reads. With --live a store keeps no features: training makes them of the recordings.",
     .example = "antiphon store --features feats.scp --alignment pdf.scp --utt2spk data/train/utt2spk --cmvn cmvn.scp "
                "exp/store",
     .positionals = {"out"},
     .required = {"out"}});

}  // namespace antiphon::app
