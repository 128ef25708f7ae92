#include "train/experiment.h"

#include <fmt/format.h>

#include <filesystem>
#include <initializer_list>
#include <sstream>
#include <string_view>

#include "base/config.h"
#include "base/file.h"
#include "base/random.h"
#include "parallel/value_share.h"
#include "train/agreement.h"
#include "train/text_difference.h"

namespace antiphon::train {
namespace {

constexpr std::string_view kContent = "content.";

// A table from its header to the next one's; lists in it have brackets, too.
void CutTable(const std::string& header, std::string& text) {
  const size_t at = text.find(header);
  if (at == std::string::npos) return;
  const size_t begin = text.rfind('\n', at) + 1;
  size_t end = begin, first = 0;
  do {
    end = text.find('\n', end);
    if (end == std::string::npos) break;
    first = text.find_first_not_of(' ', ++end);
  } while (first != std::string::npos && text[first] != '[');
  text.erase(begin, end == std::string::npos ? end : end - begin);
}

// Earlier versions' checkpoints do not name options that came later and have no say in the model.
std::string WithoutLaterKeys(std::string options, bool varies) {
  for (const std::string key : {"background = true\n", "feature-threads = 2\n", "shards-at-once = 0\n",
                                "fetch-attempts = 8\n", "fetch-stall-s = 30.0\n"}) {
    if (const size_t at = options.find(key); at != std::string::npos) options.erase(at, key.size());
  }
  if (!varies) CutTable("[data.augment]", options);
  return options;
}

// What is in the files that speech is varied with.
std::string DescribeNoises(const feat::AugmentOptions& augment) {
  uint64_t sum = 0;
  for (const auto* files : {&augment.noise_files, &augment.reverb_files}) {
    for (const std::string& file : *files) sum = MixSeed(sum, Checksum(MappedFile(file).bytes()));
  }
  return sum == 0 ? "" : fmt::format("noises = \"{:016x}\"\n", sum);
}

// One of a folder's files, or several.
uint64_t ChecksumIn(const std::filesystem::path& folder, std::initializer_list<const char*> names) {
  uint64_t sum = 0;
  for (const char* const name : names) sum = MixSeed(sum, Checksum(MappedFile(folder / name).bytes()));
  return sum;
}

// Earlier versions' checkpoints lack what describes inputs.
std::string WithoutInputsUnknownTo(const std::string& checkpoint, const std::string& experiment) {
  std::istringstream lines(experiment);
  std::string known;
  for (std::string line; std::getline(lines, line);) {
    const bool unknown = line.starts_with(kContent) &&
                         ("\n" + checkpoint).find("\n" + line.substr(0, line.find('=') + 1)) == std::string::npos;
    if (!unknown) known += line + "\n";
  }
  if (!experiment.ends_with('\n') && !known.empty()) known.pop_back();
  return known;
}

// Who steps what has no say in the model either: a run may go on divided otherwise.
std::string WithoutDivision(std::string parallel) {
  const std::string key = fmt::format("{} = ", parallel::kDivideKey);
  const size_t at = parallel.starts_with(key) ? 0 : parallel.find("\n" + key);
  if (at != std::string::npos) parallel.erase(at, parallel.find('\n', at + 1) - at);
  return parallel;
}

}  // namespace

uint64_t FingerprintOf(const std::string& place) {
  return data::FrameStore(place, {.all_shards = false, .index_only = true, .cache = {}}).fingerprint();
}

std::string DescribeInputs(const TrainOptions& options) {
  std::string lines;
  const auto add = [&](const char* option, uint64_t sum) {
    lines += fmt::format("{}{} = \"{:016x}\"\n", kContent, option, sum);
  };
  const adapt::SideTaskOptions& side = options.side;
  const SequenceOptions& sequence = options.sequence;
  if (!side.labels.empty()) add("side.labels", Checksum(MappedFile(side.labels).bytes()));
  if (!side.store.empty()) add("side.store", FingerprintOf(side.store));
  if (!options.teacher.targets.empty()) add("teacher.targets", Checksum(MappedFile(options.teacher.targets).bytes()));
  // The seal has the checksums of all others in it.
  if (!sequence.lattices.empty()) add("sequence.lattices", ChecksumIn(sequence.lattices, {"lattices.json"}));
  if (!sequence.chain_data.empty()) {
    add("sequence.chain-data",
        ChecksumIn(sequence.chain_data, {"chain.json", "model.safetensors", "denominator.safetensors", "phones.ark"}));
  }
  return lines;
}

std::string ExperimentText(const TrainingTask& task, TrainOptions options, const nn::Network& network,
                           const std::string& inputs) {
  options.checkpoint = {};
  options.guard = {};
  options.log_steps = 1;
  options.data.prefetch = 0;
  options.data.cache = {};
  options.data.feature_threads = data::MinibatchOptions().feature_threads;
  options.deadline_seconds = TrainOptions().deadline_seconds;
  Config parallel = Config::Parse(task.parallel.ToToml(), "parallel");
  parallel.Set("workers", "0");
  parallel.Set("device-memory-mb", "0");
  return fmt::format(
      "seed = {}\n{}{}{}data = \"{:016x}\"\nheld_out = \"{:016x}\"\n{}\n[optimizer]\n{}\n[parallel]\n{}\n{}", task.seed,
      DescribeModels(task), DescribeNoises(options.data.augment), inputs, task.store->fingerprint(),
      task.held_out_store ? task.held_out_store->fingerprint() : 0,
      WithoutLaterKeys(OptionsToConfig(options).ToToml(), options.data.augment.any()), task.optimizer.ToToml(),
      WithoutDivision(parallel.ToToml()), network.ToToml());
}

std::string DifferenceFrom(const SafetensorsReader& checkpoint, const std::string& experiment) {
  const std::string then = checkpoint.Metadata("experiment");
  const auto lines = FirstDifference(then, WithoutInputsUnknownTo(then, experiment));
  return lines ? fmt::format("'{}' then, '{}' now", lines->first, lines->second) : "";
}

}  // namespace antiphon::train
