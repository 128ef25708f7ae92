// A small task that a network learns in seconds: frames of noisy classes in runs, by several speakers.
#pragma once

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "comm/thread_world.h"
#include "data/frame_store.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

namespace antiphon::train {

struct SyntheticData {
  int speakers = 6;
  int utterances_per_speaker = 8;
  int frames = 100;
  int feat_dim = 6;
  int num_pdfs = 8;
  double noise = 0.7;
};

inline std::shared_ptr<const data::FrameStore> MakeSyntheticStore(const std::filesystem::path& folder,
                                                                  const SyntheticData& d = {}) {
  data::FrameStoreWriter writer(folder, d.feat_dim, d.num_pdfs, {});
  Matrix means(d.num_pdfs, d.feat_dim);
  Rng mean_rng(99);
  for (int k = 0; k < d.num_pdfs; ++k) {
    for (float& m : means.Row(k)) m = static_cast<float>(mean_rng.Normal());
  }
  for (int s = 0; s < d.speakers; ++s) {
    for (int u = 0; u < d.utterances_per_speaker; ++u) {
      Rng rng(7, static_cast<uint64_t>(s * 1000 + u));
      Matrix features(d.frames, d.feat_dim);
      std::vector<int32_t> pdf_ids(static_cast<size_t>(d.frames));
      for (int t = 0; t < d.frames; ++t) {
        const bool stay = t > 0 && rng.Uniform() < 0.8;
        const auto previous = static_cast<size_t>(std::max(t - 1, 0));
        pdf_ids[static_cast<size_t>(t)] =
            stay ? pdf_ids[previous] : static_cast<int32_t>(rng.Below(static_cast<uint64_t>(d.num_pdfs)));
        for (int c = 0; c < d.feat_dim; ++c) {
          features(t, c) = means(pdf_ids[static_cast<size_t>(t)], c) + static_cast<float>(d.noise * rng.Normal()) +
                           0.1f * static_cast<float>(s);
        }
      }
      writer.Add("spk" + std::to_string(s) + "-utt" + std::to_string(u), "spk" + std::to_string(s), features, pdf_ids);
    }
  }
  writer.Finish();
  return std::make_shared<const data::FrameStore>(folder);
}

inline TrainOptions SmallOptions() {
  TrainOptions options;
  options.data.minibatch = 64;
  options.data.left_context = options.data.right_context = 1;
  options.schedule.learning_rate = 0.5;
  options.schedule.final_learning_rate = 0.1;
  options.schedule.epochs = 3;
  options.held_out.fraction = 0.2;
  options.log_steps = 10;
  return options;
}

inline TrainingTask SmallTask(std::shared_ptr<const data::FrameStore> store, const std::filesystem::path& folder) {
  TrainingTask task;
  task.store = std::move(store);
  task.folder = folder;
  task.network = Config::Parse(
      "[[layer]]\ntype = \"affine\"\ndim = 24\n[[layer]]\ntype = \"batch-norm\"\n[[layer]]\ntype = \"relu\"\n"
      "[[layer]]\ntype = \"dropout\"\nproportion = 0.1\n[[layer]]\ntype = \"affine\"\n",
      "network");
  task.optimizer = Config::Parse("type = \"sgd\"\nmomentum = 0.5\n", "optimizer");
  return task;
}

/// As if a run had broken off after `step`: checkpoints that are newer are gone. Returns the newest one's step.
inline int64_t BreakOffAfter(int64_t step, const std::filesystem::path& run) {
  const CheckpointFolder folder(CheckpointPath(run), 0, 1, 1);
  for (;;) {
    const int64_t newest = folder.NewestSound(std::numeric_limits<int64_t>::max()).value_or(SoundFile{}).step;
    if (newest <= step) return newest;
    std::filesystem::remove(folder.File(newest));
  }
}

/// Trains in this process, as one worker.
inline TrainingSummary TrainHere(const TrainingTask& task, const TrainOptions& options, bool resume = false) {
  const auto comm = comm::MakeSelfCommunicator();
  return Trainer(task, options, *comm).Run(resume);
}

}  // namespace antiphon::train
