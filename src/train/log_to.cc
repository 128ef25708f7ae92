#include "train/log_to.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "report/mlflow.h"

namespace antiphon::train {
namespace {

constexpr std::string_view kMlflow = "mlflow:";

using Parameters = std::vector<std::pair<std::string, std::string>>;

// Those of one value each; the layers stand in the configuration's file.
void AddParameters(const Config& table, const std::string& prefix, Parameters& parameters) {
  for (const std::string& key : table.Keys()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (name == "network") continue;
    if (table.IsTable(key)) {
      AddParameters(table.Table(key), name, parameters);
    } else if (const auto value = table.AnyAsText(key); value && !value->empty()) {
      parameters.emplace_back(name, *value);
    }
  }
}

}  // namespace

void CheckTargets(const std::vector<std::string>& targets) {
  for (const std::string& target : targets) {
    const std::string_view where = std::string_view(target).substr(std::min(target.size(), kMlflow.size()));
    if (target.starts_with("wandb:") || (target.starts_with(kMlflow) && where.find("://") != std::string_view::npos)) {
      Throw<UsageError>(
          "log-to = '{}': the program alone cannot do that. Install the Python package and the service's own (in the "
          "folder of Antiphon's sources: pip install . {}): its command antiphon, or python -m antiphon train …, takes "
          "it, and python -m antiphon.log_to RUN {} sends what a run has written, while it goes on or afterwards",
          target, target.substr(0, target.find(':')), target);
    }
    if (!target.starts_with(kMlflow) || where.empty()) {
      Throw<UsageError>("log-to = '{}': expected 'mlflow:FOLDER'; TensorBoard's events are in the run folder anyway",
                        target);
    }
  }
}

RunLog::Listener ListenerTo(const std::vector<std::string>& targets, const std::filesystem::path& folder,
                            const Config& configuration, RunLog::Listener other) {
  CheckTargets(targets);
  if (targets.empty()) return other;
  report::MlflowSettings settings{.run_folder = folder};
  AddParameters(configuration, "", settings.parameters);
  std::vector<std::shared_ptr<report::MlflowRun>> runs;
  for (const std::string& target : targets) {
    runs.push_back(std::make_shared<report::MlflowRun>(target.substr(kMlflow.size()), settings));
  }
  return [runs = std::move(runs), other = std::move(other)](const std::string& json) {
    const report::MetricsRecord record = report::RecordOf(json);
    for (const auto& run : runs) run->Write(record);
    if (other) other(json);
  };
}

}  // namespace antiphon::train
