#include "antiphon/trainer.h"

#include "api/cancel.h"
#include "base/cancel.h"
#include "base/config.h"
#include "base/thread_pool.h"
#include "comm/process_group.h"
#include "pipeline/training_job.h"
#include "train/training_request.h"

namespace antiphon {

Trainer::Trainer(TrainerSettings settings) : settings_(std::move(settings)) {}

TrainingResult Trainer::Run() {
  const Config config = Config::Parse(settings_.config, "(training configuration)");
  auto request = ReadOptions<train::TrainingRequest>(config, train::kTrainingTables);
  train::TakeTables(config, request);
  const std::pair<const std::string&, std::string&> given[] = {{settings_.frame_store, request.store},
                                                               {settings_.run_folder, request.out},
                                                               {settings_.hmm, request.hmm},
                                                               {settings_.front_end, request.front_end}};
  for (const auto& [setting, option] : given) {
    if (!setting.empty()) option = setting;
  }
  request.resume = request.resume || settings_.resume;
  request.seed = settings_.seed;
  request.threads = settings_.threads;
  request.log_to.insert(request.log_to.end(), settings_.log_to.begin(), settings_.log_to.end());
  request.on_metrics = settings_.on_metrics;
  request.resume_hint = "run again with resume = true";
  const int threads = settings_.threads > 0 ? settings_.threads : NumCores();
  const auto group = comm::ProcessGroup::Alone();
  const CancelScope scope(CancelTokenAccess::Flag(settings_.cancel));
  const train::TrainingSummary summary =
      train::RunTraining(pipeline::WithModelFiles(request), {.group = *group, .threads = [&] { return threads; }})
          .summary;
  const std::filesystem::path folder(request.out);
  return {.model_file = train::ModelFile(folder).string(),
          .report_file = (folder / "report.html").string(),
          .frames = summary.frames,
          .held_out_accuracy = summary.held_out_accuracy,
          .held_out_loss = summary.held_out_loss,
          .frames_per_second = summary.frames_per_second};
}

}  // namespace antiphon
