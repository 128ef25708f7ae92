// antiphon learning-rate: a rate to begin a training with, from some hundred minibatches.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/file.h"
#include "command.h"
#include "pipeline/training_job.h"
#include "report/pages/rate_report.h"
#include "train/rate_search.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct LearningRateOptions {
  std::string training;
  std::string out;
  std::vector<std::string> with;
  train::RateSearchOptions search;
  template <class V>
  void Visit(V& v) {
    v("training", training, pipeline::kTrainingHelp);
    v("out", out, "folder for learning_rate.html and learning_rate.json");
    v("with", with, pipeline::kTrainingWithHelp);
    search.Visit(v);
  }
};

std::string ToJson(const train::RateCurve& curve) {
  nlohmann::ordered_json json;
  if (curve.suggestion()) json["learning_rate"] = *curve.suggestion();
  if (curve.lowest) json["lowest_loss_at"] = *curve.lowest;
  json["exploded"] = curve.exploded;
  json["remark"] = curve.remark;
  for (const train::RatePoint& point : curve.points) {
    json["rates"].push_back(point.rate);
    json["losses"].push_back(point.loss);
    json["smoothed"].push_back(point.smoothed);
  }
  return json.dump();
}

void FindLearningRate(const LearningRateOptions& options, CommandContext& context) {
  Config config = Config::Load(options.training);
  for (const std::string& assignment : options.with) config.SetFromFlag(assignment);
  pipeline::TrainingJob job = pipeline::ReadTrainingJob(config);
  if (job.request.out.empty()) job.request.out = options.out;  // nothing is written there
  if (context.config().Has("seed")) job.request.seed = context.seed();
  SetComputeThreads(context.threads());
  const train::RateCurve curve = train::SearchLearningRate(pipeline::WithModelFiles(job.request), options.search);
  report::RatePage page{.losses = {},
                        .smoothed = {},
                        .steepest = curve.steepest,
                        .lowest = curve.lowest,
                        .remark = curve.remark,
                        .configuration = config.ToToml()};
  for (const train::RatePoint& point : curve.points) {
    page.losses.emplace_back(point.rate, point.loss);
    page.smoothed.emplace_back(point.rate, point.smoothed);
  }
  const fs::path out = options.out;
  WriteFileAtomically(out / "learning_rate.json", ToJson(curve) + "\n");
  report::WriteRatePage(page, options.training, out / "learning_rate.html");
  if (curve.suggestion()) {
    context.Print("learning rate to begin with: {:.3g} (the loss falls fastest); it is lowest at {:.3g}",
                  *curve.suggestion(), *curve.lowest);
  }
  if (!curve.remark.empty()) context.PrintLine(curve.remark);
  context.Print("page: {}", (out / "learning_rate.html").string());
  context.SetResult(ToJson(curve));
}

REGISTER_COMMAND(
    "learning-rate", LearningRateOptions, FindLearningRate,
    {.summary = "find a learning rate to begin a training with",
     .description = "A fresh network learns from some hundred minibatches while the rate rises from --from to --to; "
                    "where the loss falls fastest is a good rate to begin with. The page shows the curve. Nothing is "
                    "written to the training's own folder.",
     .example = "antiphon learning-rate --training exp/dnn/config.toml --out exp/rate\n"
                "antiphon learning-rate --training exp/dnn/config.toml --out exp/rate --with data.minibatch=1024",
     .required = {"training", "out"}});

}  // namespace
}  // namespace antiphon::app
