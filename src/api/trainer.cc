#include "antiphon/trainer.h"

#include <omp.h>

#include <algorithm>

#include "api/acoustic_model.h"
#include "base/error.h"
#include "base/file.h"
#include "base/thread_pool.h"
#include "comm/thread_world.h"
#include "data/feature_kind.h"
#include "train/trainer.h"

namespace antiphon {

Trainer::Trainer(TrainerSettings settings) : settings_(std::move(settings)) {}

TrainingResult Trainer::Run() {
  const Config config = Config::Parse(settings_.config, "(training configuration)");
  const auto options = ReadOptions<train::TrainOptions>(config, {"network", "optimizer", "parallel"});
  train::TrainingTask task;
  task.store = std::make_shared<const data::FrameStore>(settings_.frame_store);
  task.folder = settings_.run_folder;
  task.network = config.Table("network");
  task.optimizer = config.Table("optimizer");
  task.parallel = config.Table("parallel");
  if (!settings_.hmm.empty()) task.hmm = LoadHmm(settings_.hmm);
  task.feature_config = data::FrontEndFor(*task.store, settings_.front_end, /*keeps_speaker_model=*/false);
  task.seed = settings_.seed;
  task.resume_hint = "run again with resume = true";

  const int threads = settings_.threads > 0 ? settings_.threads : NumCores();
  const int64_t workers = task.parallel.Int("workers").value_or(1);
  if (workers < 1 || workers > 4096) Throw<UsageError>("parallel.workers must be 1 … 4096, found {}", workers);
  train::TrainingSummary summary;
  comm::RunRanks(static_cast<int>(workers), [&](comm::Communicator& comm) {
    omp_set_num_threads(std::max(1, threads / static_cast<int>(workers)));
    train::Trainer trainer(task, options, comm);
    const train::TrainingSummary mine = trainer.Run(settings_.resume);
    if (comm.rank() == 0) summary = mine;
  });
  return {.model_file = train::ModelFile(task.folder).string(),
          .report_file = (task.folder / "report.html").string(),
          .frames = summary.frames,
          .held_out_accuracy = summary.held_out_accuracy,
          .held_out_loss = summary.held_out_loss,
          .frames_per_second = summary.frames_per_second};
}

}  // namespace antiphon
