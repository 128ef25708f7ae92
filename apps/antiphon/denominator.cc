// antiphon denominator: the graph of lattice-free sequence training, from the training alignments.
#include "decode/denominator.h"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "api/acoustic_model.h"
#include "base/error.h"
#include "command.h"
#include "data/archive.h"
#include "data/file_checksums.h"

namespace antiphon::app {
namespace {

struct DenominatorCommandOptions {
  std::string model, alignment, out;
  decode::DenominatorOptions graph;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file (GMM or network) whose phones and tied states the alignment is in");
    v("alignment", alignment, "table of transition-ids of the training speech (ali.scp)");
    v("out", out, "file for the graph");
    graph.Visit(v);
  }
};

void MakeDenominator(const DenominatorCommandOptions& options, CommandContext& context) {
  const hmm::HmmModel model = LoadHmm(options.model);
  data::RequireTableAsWritten(options.alignment);
  std::vector<std::vector<int32_t>> phones;
  for (data::SequentialReader<std::vector<int32_t>> reader(options.alignment); reader.Next();) {
    WithContext(
        [&] {
          std::vector<int32_t>& sentence = phones.emplace_back();
          for (const hmm::PhoneSegment& segment : model.SplitToPhones(reader.value()))
            sentence.push_back(segment.phone);
        },
        [&] { return fmt::format("'{}', utterance '{}'", options.alignment, reader.key()); });
  }
  const auto graph = decode::DenominatorGraph::Build(model, phones, options.graph);
  graph.Save(options.out, model);
  context.Print("{} states and {} arcs, from {} utterances", graph.num_states(), graph.arcs().size(), phones.size());
  context.SetResult(nlohmann::json({{"states", graph.num_states()}, {"arcs", graph.arcs().size()}}).dump());
}

REGISTER_COMMAND(
    "denominator", DenominatorCommandOptions, MakeDenominator,
    {.summary = "make the graph of lattice-free sequence training",
     .description = "An n-gram model of the phones that were aligned, expanded to the model's states: what "
                    "sequence.criterion=lf-mmi sums over. Each of its arcs is followed in each frame, so that its size "
                    "is what that training costs.",
     .example = "antiphon denominator --model exp/align/model.safetensors --alignment exp/align/ali.scp "
                "exp/denominator.safetensors",
     .positionals = {"out"},
     .required = {"model", "alignment", "out"}});

}  // namespace
}  // namespace antiphon::app
