// antiphon store: joins features and alignment to the frame store that training reads.
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "command.h"
#include "data/frame_store.h"
#include "pipeline/acoustic_model.h"

namespace antiphon::app {
namespace {

struct StoreCommandOptions {
  std::string out;
  std::string hmm;
  data::BuildFrameStoreOptions build;

  template <class V>
  void Visit(V& v) {
    v("out", out, "folder of the store; an older store there is replaced when the new one is whole");
    v("hmm", hmm, "model whose pdf-ids these are, in place of num-pdfs");
    build.Visit(v);
  }
};

void Store(StoreCommandOptions options, CommandContext& context) {
  if (!options.hmm.empty()) {
    if (options.build.num_pdfs != 0) throw UsageError("give hmm or num-pdfs, not both");
    options.build.num_pdfs = LoadHmm(options.hmm).num_pdfs();
  }
  const data::FrameStoreSummary summary = data::BuildFrameStore(options.build, options.out, context.threads());
  context.Print("{} frames of {} utterances in {}", summary.frames, summary.utterances, options.out);
  if (!summary.without_alignment.empty()) {
    context.Print("{} utterances left out, because they have no alignment, the first: {}",
                  summary.without_alignment.size(), summary.without_alignment[0]);
  }
  context.SetResult(nlohmann::json({{"frames", summary.frames},
                                    {"utterances", summary.utterances},
                                    {"without_alignment", summary.without_alignment}})
                        .dump());
}

}  // namespace

REGISTER_COMMAND(
    "store", StoreCommandOptions, Store,
    {.summary = "join features and alignment to a frame store for training",
     .description = "Features are normalised, compressed and kept beside one pdf-id per frame; context is spliced when "
                    "training reads.",
     .example = "antiphon store --features feats.scp --alignment pdf.scp --utt2spk data/train/utt2spk --cmvn cmvn.scp "
                "exp/store",
     .positionals = {"out"},
     .required = {"out", "features"}});

}  // namespace antiphon::app
