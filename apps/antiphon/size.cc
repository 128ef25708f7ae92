#include <nlohmann/json.hpp>

#include "base/file.h"
#include "command.h"
#include "data/data_dir.h"
#include "data/data_summary.h"
#include "recipe/scaling.h"

namespace antiphon::app {
namespace {

struct SizeCommandOptions {
  std::string data, out;
  data::DataDirOptions data_dir;
  template <class V>
  void Visit(V& v) {
    v("data", data, "data directory of the training speech");
    v("out", out, "TOML file to write; empty: none");
    data_dir.Visit(v);
  }
};

void Size(const SizeCommandOptions& options, CommandContext& context) {
  const auto dir = data::DataDir::Load(options.data, options.data_dir);
  const auto summary = data::Summarise(dir, nullptr, context.threads());
  if (summary.seconds <= 0) Throw<InputError>("'{}' holds no speech to train on", options.data);
  const recipe::ModelSizes sizes = recipe::SizesFor(summary.seconds / 3600.0);
  context.PrintLine(recipe::ToToml(sizes));
  if (!options.out.empty()) WriteFileAtomically(options.out, recipe::ToToml(sizes));
  nlohmann::ordered_json json = {{"hours", sizes.hours}};
  for (const auto& [name, value] : recipe::NumbersOf(sizes)) json[name] = value;
  context.SetResult(json.dump(2));
}

REGISTER_COMMAND("size", SizeCommandOptions, Size,
                 {.summary = "how large to make models for the speech of a data directory",
                  .description = "Numbers of tied states, Gaussians, hidden units, layers and epochs from the hours of "
                                 "speech, by powers below one of them: for a hundred times the speech sixteen times "
                                 "the states. Recipes take them as variables.",
                  .example = "antiphon size corpora/fsdd/data/train --out exp/sizes.toml",
                  .positionals = {"data"},
                  .required = {"data"}});

}  // namespace
}  // namespace antiphon::app
