#include "train/experiment.h"

#include <fmt/format.h>

#include "base/config.h"
#include "parallel/value_share.h"
#include "train/agreement.h"
#include "train/text_difference.h"

namespace antiphon::train {
namespace {

// Earlier versions' checkpoints do not name options that came later and have no say in the model.
std::string WithoutLaterKeys(std::string options) {
  const std::string key = "background = true\n";
  if (const size_t at = options.find(key); at != std::string::npos) options.erase(at, key.size());
  return options;
}

// Who steps what has no say in the model either: a run may go on divided otherwise.
std::string WithoutDivision(std::string parallel) {
  const std::string key = fmt::format("{} = ", parallel::kDivideKey);
  const size_t at = parallel.starts_with(key) ? 0 : parallel.find("\n" + key);
  if (at != std::string::npos) parallel.erase(at, parallel.find('\n', at + 1) - at);
  return parallel;
}

}  // namespace

std::string ExperimentText(const TrainingTask& task, TrainOptions options, const nn::Network& network) {
  options.checkpoint = {};
  options.guard = {};
  options.log_steps = 1;
  options.data.prefetch = 0;
  options.data.cache = {};
  options.deadline_seconds = TrainOptions().deadline_seconds;
  Config parallel = Config::Parse(task.parallel.ToToml(), "parallel");
  parallel.Set("workers", "0");
  parallel.Set("device-memory-mb", "0");
  return fmt::format("seed = {}\n{}data = \"{:016x}\"\nheld_out = \"{:016x}\"\n{}\n[optimizer]\n{}\n[parallel]\n{}\n{}",
                     task.seed, DescribeModels(task), task.store->fingerprint(),
                     task.held_out_store ? task.held_out_store->fingerprint() : 0,
                     WithoutLaterKeys(OptionsToConfig(options).ToToml()), task.optimizer.ToToml(),
                     WithoutDivision(parallel.ToToml()), network.ToToml());
}

std::string DifferenceFrom(const SafetensorsReader& checkpoint, const std::string& experiment) {
  const auto lines = FirstDifference(checkpoint.Metadata("experiment"), experiment);
  return lines ? fmt::format("'{}' then, '{}' now", lines->first, lines->second) : "";
}

}  // namespace antiphon::train
