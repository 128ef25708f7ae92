// antiphon compare: the same training by several methods and numbers of workers, side by side.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/file.h"
#include "base/log.h"
#include "command.h"
#include "parallel/strategy.h"
#include "train/comparison_report.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct CompareCommandOptions {
  std::string training;
  std::string out;
  std::vector<std::string> with;
  std::vector<std::string> methods = {"serial"};
  std::vector<int> workers = {1};
  int seeds = 3;

  template <class V>
  void Visit(V& v) {
    v("training", training, "configuration of antiphon train, store and network included");
    v("out", out, "folder for the runs, compare.html and compare.json");
    v("with", with, "settings that replace those of --training: key=value");
    v("methods", methods, "values of parallel.method, or names of `variants` tables");
    v("workers", workers, Range{1, 4096}, "numbers of workers; method serial is run by one");
    v("seeds", seeds, Range{1, 1000}, "runs of each, with seeds --seed, --seed + 1 …");
  }
};

// The settings "key=value" of a variant; a method that is no variant is its own.
std::vector<std::string> Settings(const std::string& name, const Config& variants) {
  if (const auto settings = variants.Texts(name)) return *settings;
  if (!parallel::StrategyRegistry::Get().Has(name)) {
    std::vector<std::string> known = parallel::StrategyRegistry::Get().Names();
    for (const std::string& variant : variants.Keys()) known.push_back(variant);
    throw UsageError(UnknownNameMessage("method or variant", name, known));
  }
  return {"parallel.method=" + name};
}

// Everything that one run is told.
Config RunConfig(const CompareCommandOptions& options, const CommandContext& context, const std::string& method,
                 const train::ComparedRun& run) {
  Config config = Config::Load(options.training);
  for (const std::string& assignment : options.with) config.SetFromFlag(assignment);
  for (const std::string& setting : Settings(method, context.config().Table("variants"))) config.SetFromFlag(setting);
  config.Set("parallel.workers", std::to_string(run.workers));
  config.Set("out", fmt::format("\"{}\"", run.folder.string()));
  config.Set("seed", std::to_string(run.seed));
  config.Set("threads", std::to_string(context.threads()));
  config.Set("resume", "true");
  config.Set("anew-if-changed", "true");
  return config;
}

// Those that are asked for; the method that is for one worker is run by one.
std::vector<int> NumbersOfWorkers(const CompareCommandOptions& options, const std::string& method,
                                  const CommandContext& context) {
  const Config config = RunConfig(options, context, method, {});
  return config.Text("parallel.method") == "serial" ? std::vector<int>{1} : options.workers;
}

// Trains unless the folder holds the result of the same configuration.
void Train(const Config& config, train::ComparedRun& run, CommandContext& context) {
  const fs::path done = run.folder / "compared.toml";
  const std::string toml = config.ToToml();
  if (fs::exists(done) && ReadFile(done) == toml) return;
  try {
    RunCommand("train", config, context.out());
    WriteFileAtomically(done, toml);
  } catch (const Cancelled&) {
    throw;
  } catch (const UsageError& e) {
    run.failure = e.what();
  } catch (const DivergenceError& e) {
    run.failure = e.what();
  }
  if (!run.failure.empty()) log::Warn("{} × {}, seed {}: {}", run.method, run.workers, run.seed, run.failure);
}

void Compare(const CompareCommandOptions& options, CommandContext& context) {
  std::vector<train::ComparedRun> runs;
  std::vector<Config> configs;
  for (const std::string& method : options.methods) {
    for (const int workers : NumbersOfWorkers(options, method, context)) {
      for (int k = 0; k < options.seeds; ++k) {
        train::ComparedRun run{method, workers, context.seed() + static_cast<uint64_t>(k), {}, {}};
        run.folder = fs::path(options.out) / fmt::format("{}-{}-seed{}", method, run.workers, run.seed);
        configs.push_back(RunConfig(options, context, method, run));
        runs.push_back(run);
      }
    }
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    log::Info("run {} of {}: {} × {}, seed {}", i + 1, runs.size(), runs[i].method, runs[i].workers, runs[i].seed);
    Train(configs[i], runs[i], context);
  }
  const train::Comparison comparison = train::Compare(runs);
  context.PrintLine(train::TextTable(comparison));
  const fs::path page = fs::path(options.out) / "compare.html";
  train::WriteComparison(comparison, options.out, context.config().ToToml() + "\n" + ReadFile(options.training), page);
  const std::string json = train::ToJson(comparison);
  WriteFileAtomically(fs::path(options.out) / "compare.json", json + "\n");
  context.Print("page: {}", page.string());
  context.SetResult(json);
}

}  // namespace

REGISTER_COMMAND(
    "compare", CompareCommandOptions, Compare,
    {.summary = "train one network by several parallel methods, and compare them",
     .description =
         "Every method is run with every number of workers and every seed; runs that are finished are not repeated, so "
         "that methods can be added later. The table `variants` names methods with settings of their own: "
         "bmuf-long = [\"parallel.method=bmuf\", \"parallel.sync-period=64\"].",
     .example =
         "antiphon compare --training exp/dnn/config.toml --methods serial ssgd averaging bmuf --workers 2 4 --out "
         "exp/compare",
     .required = {"training", "out"},
     .tables = {"variants"}});

}  // namespace antiphon::app
