// --check-options: whether a command could read everything that it is told, without running it.
#include <algorithm>

#include "base/suggest.h"
#include "comm/cluster.h"
#include "command.h"
#include "parallel/strategy_traits.h"
#include "train/component_options.h"

namespace antiphon::app {
namespace {

void CheckComponent(std::string_view family, const std::string& component, const Config& table) {
  train::ReadComponent(train::FamilyNamed(family), component, table);
}

void CheckLayers(const std::vector<Config>& layers) {
  for (const Config& layer : layers) {
    const std::string type = layer.RequiredText("type");
    if (type != "repeat") CheckComponent("layer", type, layer);
    if (layer.Has("layers")) CheckLayers(layer.Tables("layers"));
  }
}

void CheckNetwork(const Config& network) {
  for (const std::string& key : network.Keys()) {
    if (key != "layer") throw UsageError(network.Where(key) + ": " + UnknownNameMessage("key", key, {"layer"}));
  }
  CheckLayers(network.Tables("layer"));
}

// Without a type, that of a model or a default decides.
void CheckOptimizer(const Config& optimizer) {
  if (!optimizer.Has("type")) return;
  CheckComponent("optimizer", optimizer.RequiredText("type"), optimizer);
}

void CheckParallel(const Config& parallel) {
  CheckComponent("strategy", parallel::MethodOf(parallel), parallel);
  if (parallel.Has("codec")) {
    const Config codec = parallel.Table("codec");
    CheckComponent("codec", codec.Text("type").value_or("fp32"), codec);
  }
}

void CheckTable(const CommandInfo& info, const std::string& name, const Config& table) {
  if (name == "network") return CheckNetwork(table);
  if (name == "optimizer") return CheckOptimizer(table);
  if (name == "parallel") return CheckParallel(table);
  if (name == "cluster") return static_cast<void>(ReadOptions<comm::ClusterOptions>(table));
  if (name == "decode" || name == "old-decode") return CommandRegistry::Get().Create("decode")->CheckOptions(table);
  for (const char* family : {"compression", "adaptation"}) {
    const auto& names = train::FamilyNamed(family).names;
    const bool its = std::all_of(names.begin(), names.end(), [&](const std::string& method) {
      return std::find(info.tables.begin(), info.tables.end(), method) != info.tables.end();
    });
    if (its && std::find(names.begin(), names.end(), name) != names.end()) CheckComponent(family, name, table);
  }
}

}  // namespace

void CheckCommand(std::string_view name, const Config& config) {
  const auto names = CommandRegistry::Get().Names();
  if (!CommandRegistry::Get().Has(name)) throw UsageError(UnknownNameMessage("command", name, names));
  const auto command = CommandRegistry::Get().Create(name);
  WithContext(
      [&] {
        CheckRequired(command->info(), config);
        ReadCommonOptions(config);
        command->CheckOptions(config);
        for (const std::string& table : command->info().tables) {
          if (config.Has(table)) CheckTable(command->info(), table, config.Table(table));
        }
      },
      [&] { return fmt::format("antiphon {}", name); });
}

}  // namespace antiphon::app
