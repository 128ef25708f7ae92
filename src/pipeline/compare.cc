#include "pipeline/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/suggest.h"
#include "base/toml_text.h"
#include "parallel/strategy.h"
#include "parallel/strategy_traits.h"
#include "pipeline/decode.h"
#include "pipeline/model_measure.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

// Calls `run` unless the file `done` says that it came to its end with the same configuration.
template <class Run>
void Once(const fs::path& done, const std::string& configuration, const Run& run) {
  if (fs::exists(done) && ReadFile(done) == configuration) return;
  run();
  WriteFileAtomically(done, configuration);
}

class Comparer {
 public:
  Comparer(const CompareRequest& request, const CompareHost& host) : request_(request), host_(host) {}

  std::vector<report::ComparedRun> PlannedRuns() const {
    std::vector<report::ComparedRun> runs;
    for (const std::string& method : request_.methods) {
      for (const int workers : NumbersOfWorkers(method)) {
        for (int k = 0; k < request_.seeds; ++k) {
          report::ComparedRun run{method, workers, host_.stage.seed + static_cast<uint64_t>(k), {}, {}};
          run.folder = fs::path(request_.out) / fmt::format("{}-{}-seed{}", method, run.workers, run.seed);
          runs.push_back(run);
        }
      }
    }
    return runs;
  }

  // Trains, and recognises if there is a decoding in the request.
  void Run(report::ComparedRun& run) const {
    const Config training = TrainingOf(run);
    Train(training, run);
    if (!run.failure.empty()) {
      log::Warn("{} × {}, seed {}: {}", run.method, run.workers, run.seed, run.failure);
    } else if (request_.decode) {
      Recognise(training, run);
    }
  }

 private:
  // The settings "key=value" of a variant; a method that is no variant is its own.
  std::vector<std::string> Settings(const std::string& name) const {
    if (const auto settings = request_.variants.Texts(name)) return *settings;
    if (!parallel::StrategyRegistry::Get().Has(name)) {
      std::vector<std::string> known = parallel::StrategyRegistry::Get().Names();
      for (const std::string& variant : request_.variants.Keys()) known.push_back(variant);
      throw UsageError(UnknownNameMessage("method or variant", name, known));
    }
    return {"parallel.method=" + name};
  }

  // Everything that one run is told.
  Config TrainingOf(const report::ComparedRun& run) const {
    Config config = Config::Load(request_.training);
    for (const std::string& assignment : request_.with) config.SetFromFlag(assignment);
    for (const std::string& setting : Settings(run.method)) config.SetFromFlag(setting);
    config.Set("parallel.workers", std::to_string(run.workers));
    config.Set("out", TomlString(run.folder.string()));
    config.Set("seed", std::to_string(run.seed));
    config.Set("threads", std::to_string(host_.stage.threads));
    config.Set("resume", "true");
    config.Set("anew-if-changed", "true");
    return config;
  }

  // Those that are asked for; the method that is for one worker is run by one.
  std::vector<int> NumbersOfWorkers(const std::string& method) const {
    const Config config = TrainingOf({.method = method, .folder = {}, .failure = {}});
    if (parallel::TraitsOf(config.Table("parallel")).one_worker) return {1};
    const auto own = request_.workers_of.Ints(method);
    return own ? std::vector<int>(own->begin(), own->end()) : request_.workers;
  }

  void Train(const Config& training, report::ComparedRun& run) const {
    try {
      Once(run.folder / "compared.toml", training.ToToml(), [&] {
        TrainingJob job = ReadTrainingJob(training);
        job.request.resume = fs::exists(run.folder / "checkpoint");
        host_.train(job);
      });
    } catch (const Cancelled&) {
      throw;
    } catch (const UsageError& e) {
      run.failure = e.what();
    } catch (const DivergenceError& e) {
      run.failure = e.what();
    }
  }

  void Recognise(const Config& training, const report::ComparedRun& run) const {
    Config decode = Config::Parse(request_.decode->ToToml(), "decode");
    decode.Set("model", TomlString((run.folder / "model.safetensors").string()));
    decode.Set("out", TomlString((run.folder / "decode").string()));
    decode.Set("threads", std::to_string(host_.stage.threads));
    Once(run.folder / "decoded.toml", decode.ToToml() + training.ToToml(), [&] {
      const DecodeRequest request = ReadDecodeTable(decode);
      host_.stage.in_team([&](Team& team, int threads) {
        const DecodeReport report = Decode(request, team, threads);
        if (!team.is_first()) return;
        for (const std::string& sentence : Sentences(report)) host_.stage.say(sentence);
      });
    });
  }

  const CompareRequest& request_;
  const CompareHost& host_;
};

// Of the runs that are through.
void WriteResults(const CompareRequest& request, const report::Comparison& comparison, size_t through, size_t planned) {
  const fs::path out = request.out;
  const std::string runs =
      through == planned ? fmt::format("{} runs", planned) : fmt::format("{} of {} runs so far", through, planned);
  report::WriteComparison(comparison, request.title, fmt::format("{}: {}", request.out, runs),
                          request.configuration + "\n" + ReadFile(request.training), out / "compare.html");
  WriteFileAtomically(out / "compare.md", report::MarkdownTables(comparison));
  WriteFileAtomically(out / "compare.json", report::ToJson(comparison) + "\n");
}

}  // namespace

void TakeTables(const Config& config, CompareRequest& request) {
  request.variants = config.Table("variants");
  request.workers_of = config.Table("workers-of");
  if (config.Has("decode")) request.decode = config.Table("decode");
  request.configuration = config.ToToml();
}

report::Comparison Compare(const CompareRequest& request, const CompareHost& host) {
  const Comparer comparer(request, host);
  std::vector<report::ComparedRun> runs = comparer.PlannedRuns();
  std::vector<size_t> order(runs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return runs[a].seed < runs[b].seed; });
  std::vector<bool> through(runs.size(), false);
  report::Comparison comparison;
  for (size_t k = 0; k < order.size(); ++k) {
    report::ComparedRun& run = runs[order[k]];
    log::Info("run {} of {}: {} × {}, seed {}", k + 1, runs.size(), run.method, run.workers, run.seed);
    comparer.Run(run);
    through[order[k]] = true;
    std::vector<report::ComparedRun> so_far;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (through[i]) so_far.push_back(runs[i]);
    }
    comparison = report::Compare(so_far);
    WriteResults(request, comparison, k + 1, runs.size());
  }
  return comparison;
}

}  // namespace antiphon::pipeline
