#include "pipeline/training_job.h"

#include <vector>

#include "base/error.h"
#include "device/device_list.h"
#include "pipeline/bundle.h"

namespace antiphon::pipeline {
namespace {

struct JobOptions {
  TrainingJob job;
  std::string evaluate;
  template <class V>
  void Visit(V& v) {
    job.request.Visit(v);
    job.supervise.Visit(v);
    v("evaluate", evaluate, "must be empty");
  }
};

}  // namespace

TrainingJob::TrainingJob() = default;

TrainingJob ReadTrainingJob(const Config& config) {
  std::vector<std::string> others = train::kTrainingTables;
  others.insert(others.end(), {"threads", "seed", "json", "device"});
  auto options = ReadOptions<JobOptions>(config, std::move(others));
  if (!options.evaluate.empty()) {
    Throw<UsageError>("{}: evaluate = '{}' asks for no training: leave it out", config.Where("evaluate"),
                      options.evaluate);
  }
  if (const auto devices = config.Text("device")) RequireDevices(*devices);
  TrainingJob& job = options.job;
  if (job.request.store.empty()) Throw<UsageError>("{}: a training needs store = …", config.Where());
  train::TakeTables(config, job.request);
  if (const auto seed = config.Int("seed")) job.request.seed = static_cast<uint64_t>(*seed);
  job.request.threads = config.Int("threads").value_or(0);
  return std::move(job);
}

train::TrainingRequest WithModelFiles(train::TrainingRequest request) {
  const auto take = [](std::string& model) {
    if (!model.empty()) model = PartsAt(model).model;
  };
  take(request.hmm);
  take(request.initial_model);
  for (std::string& teacher : request.train.teacher.models) take(teacher);
  return request;
}

}  // namespace antiphon::pipeline
