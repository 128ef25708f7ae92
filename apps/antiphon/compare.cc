// antiphon compare: the same training by several methods and numbers of workers, side by side; with word error rates,
// if it is told how to recognise.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/file.h"
#include "base/log.h"
#include "command.h"
#include "parallel/strategy.h"
#include "parallel/strategy_traits.h"
#include "pipeline/decode.h"
#include "pipeline/model_measure.h"
#include "processes.h"
#include "report/pages/comparison_report.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct CompareCommandOptions {
  std::string training;
  std::string out;
  std::string title = "Ways to train one network";
  std::vector<std::string> with;
  std::vector<std::string> methods = {"serial"};
  std::vector<int> workers = {1};
  int seeds = 3;

  template <class V>
  void Visit(V& v) {
    v("training", training, "configuration of antiphon train, store and network included");
    v("out", out, "folder for the runs, compare.html, compare.md and compare.json");
    v("title", title, "of the page");
    v("with", with, "settings that replace those of --training: key=value");
    v("methods", methods, "values of parallel.method, or names of `variants` tables");
    v("workers", workers, Range{1, 4096},
      "numbers of workers, unless workers-of.METHOD says; method serial is run by one");
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
Config RunConfig(const CompareCommandOptions& options, const CommandContext& context, const report::ComparedRun& run) {
  Config config = Config::Load(options.training);
  for (const std::string& assignment : options.with) config.SetFromFlag(assignment);
  for (const std::string& setting : Settings(run.method, context.config().Table("variants"))) {
    config.SetFromFlag(setting);
  }
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
  const Config config = RunConfig(options, context, {.method = method, .folder = {}, .failure = {}});
  if (parallel::TraitsOf(config.Table("parallel")).one_worker) return {1};
  const auto own = context.config().Table("workers-of").Ints(method);
  return own ? std::vector<int>(own->begin(), own->end()) : options.workers;
}

// Calls `run` unless the file `done` says that it came to its end with the same configuration.
template <class Run>
void Once(const fs::path& done, const std::string& configuration, const Run& run) {
  if (fs::exists(done) && ReadFile(done) == configuration) return;
  run();
  WriteFileAtomically(done, configuration);
}

// Trains, and recognises if the table `decode` stands in the configuration.
void TrainAndDecode(const Config& config, report::ComparedRun& run, CommandContext& context) {
  const std::string trained = config.ToToml();
  try {
    Once(run.folder / "compared.toml", trained, [&] {
      Config now = Config::Parse(trained, "compare");
      if (!fs::exists(run.folder / "checkpoint")) now.Set("resume", "false");
      RunCommand("train", now, context.out());
    });
  } catch (const Cancelled&) {
    throw;
  } catch (const UsageError& e) {
    run.failure = e.what();
  } catch (const DivergenceError& e) {
    run.failure = e.what();
  }
  if (!run.failure.empty()) {
    log::Warn("{} × {}, seed {}: {}", run.method, run.workers, run.seed, run.failure);
    return;
  }
  if (!context.config().Has("decode")) return;
  Config decode = Config::Parse(context.config().Table("decode").ToToml(), "decode");
  decode.Set("model", fmt::format("\"{}\"", (run.folder / "model.safetensors").string()));
  decode.Set("out", fmt::format("\"{}\"", (run.folder / "decode").string()));
  decode.Set("threads", std::to_string(context.threads()));
  Once(run.folder / "decoded.toml", decode.ToToml() + trained, [&] {
    const pipeline::DecodeRequest request = pipeline::ReadDecodeTable(decode);
    InTeam(context, [&](Team& team, int threads) {
      const pipeline::DecodeReport report = pipeline::Decode(request, team, threads);
      if (!team.is_first()) return;
      for (const std::string& sentence : pipeline::Sentences(report)) context.PrintLine(sentence);
    });
  });
}

std::vector<report::ComparedRun> PlannedRuns(const CompareCommandOptions& options, const CommandContext& context) {
  std::vector<report::ComparedRun> runs;
  for (const std::string& method : options.methods) {
    for (const int workers : NumbersOfWorkers(options, method, context)) {
      for (int k = 0; k < options.seeds; ++k) {
        report::ComparedRun run{method, workers, context.seed() + static_cast<uint64_t>(k), {}, {}};
        run.folder = fs::path(options.out) / fmt::format("{}-{}-seed{}", method, run.workers, run.seed);
        runs.push_back(run);
      }
    }
  }
  return runs;
}

// Of the runs that are through; returns the JSON.
std::string WriteResults(const CompareCommandOptions& options, const CommandContext& context,
                         const report::Comparison& comparison, size_t through, size_t planned) {
  const fs::path out = options.out;
  const std::string runs =
      through == planned ? fmt::format("{} runs", planned) : fmt::format("{} of {} runs so far", through, planned);
  report::WriteComparison(comparison, options.title, fmt::format("{}: {}", options.out, runs),
                          context.config().ToToml() + "\n" + ReadFile(options.training), out / "compare.html");
  WriteFileAtomically(out / "compare.md", report::MarkdownTables(comparison));
  std::string json = report::ToJson(comparison);
  WriteFileAtomically(out / "compare.json", json + "\n");
  return json;
}

// One seed of everything first, so that a comparison which is cut short compares.
void Compare(const CompareCommandOptions& options, CommandContext& context) {
  std::vector<report::ComparedRun> runs = PlannedRuns(options, context);
  std::vector<size_t> order(runs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return runs[a].seed < runs[b].seed; });
  std::vector<bool> through(runs.size(), false);
  report::Comparison comparison;
  std::string json = "{}";
  for (size_t k = 0; k < order.size(); ++k) {
    report::ComparedRun& run = runs[order[k]];
    log::Info("run {} of {}: {} × {}, seed {}", k + 1, runs.size(), run.method, run.workers, run.seed);
    TrainAndDecode(RunConfig(options, context, run), run, context);
    through[order[k]] = true;
    std::vector<report::ComparedRun> so_far;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (through[i]) so_far.push_back(runs[i]);
    }
    comparison = report::Compare(so_far);
    json = WriteResults(options, context, comparison, k + 1, runs.size());
  }
  context.PrintLine(report::TextTable(comparison));
  context.Print("page: {}", (fs::path(options.out) / "compare.html").string());
  context.SetResult(json);
}

}  // namespace

REGISTER_COMMAND(
    "compare", CompareCommandOptions, Compare,
    {.summary = "train one network by several parallel methods, and compare them",
     .description =
         "Every method is run with every number of workers and every seed; runs that are finished are not repeated, so "
         "that a run which was stopped goes on, and methods can be added later. The table `variants` names methods "
         "with settings of their own: bmuf-long = [\"parallel.method=bmuf\", \"parallel.sync-period=64\"]; the table "
         "`workers-of` gives a method numbers of its own: bmuf = [8, 16]; the table `decode` (options of antiphon "
         "decode, but for model and out) has each model recognise a test set. The first method is what the others are "
         "measured against.",
     .example =
         "antiphon compare --training exp/dnn/config.toml --methods serial,ssgd,averaging,bmuf --workers 2,4 --out "
         "exp/compare\n"
         "antiphon compare --training exp/dnn/config.toml --methods serial,bmuf --workers 8 --out exp/compare --set "
         "decode.graph=exp/graph --set decode.data=data/test",
     .required = {"training", "out"},
     .tables = {"variants", "workers-of", "decode"}});

}  // namespace antiphon::app
