// antiphon ensemble: several trained networks as one model.
#include "pipeline/ensemble.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/same_place.h"
#include "command.h"
#include "pipeline/bundle.h"

namespace antiphon::app {
namespace {

struct EnsembleCommandOptions {
  std::vector<std::string> models;
  std::vector<double> weights;
  std::string out;

  template <class V>
  void Visit(V& v) {
    v("models", models, "model files, or folders that hold one");
    v("weights", weights, "share of each model in the mean, beside the others; empty: equal ones");
    v("out", out, "model file to write");
  }
};

void Ensemble(const EnsembleCommandOptions& options, CommandContext& context) {
  std::vector<pipeline::NamedModel> models;
  for (const std::string& place : options.models) {
    const std::string file = pipeline::PartsAt(place).model;
    RequireOtherPlace(file, options.out, "this model");
    for (const pipeline::NamedModel& other : models) {
      if (IsSamePlace(file, other.name)) Throw<UsageError>("'{}' is named twice: give one model a larger weight", file);
    }
    models.push_back({file, nn::Model::Load(file)});
  }
  const nn::Model model = pipeline::EnsembleOf(models, options.weights);
  model.Save(options.out);
  context.Print("{}: {} networks, {} parameters", options.out, models.size(), model.network.num_parameters());
}

REGISTER_COMMAND(
    "ensemble", EnsembleCommandOptions, Ensemble,
    {.summary = "several networks as one, which scores with the mean of theirs",
     .description =
         "Networks of the same states and features, trained from different seeds or with different layers, make "
         "different errors: together they make fewer, at the cost of them all in memory and time.",
     .example = "antiphon ensemble exp/net1/model.safetensors exp/net2/model.safetensors --out exp/both.safetensors\n"
                "antiphon ensemble exp/small exp/large --weights 1,2 --out exp/both.safetensors",
     .positionals = {"models"},
     .required = {"models", "out"}});

}  // namespace
}  // namespace antiphon::app
