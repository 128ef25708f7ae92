// The part of Worker that trains when the workers take minibatches from a common pool whenever they are free.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <optional>
#include <tuple>

#include "base/cancel.h"
#include "train/worker.h"

namespace antiphon::train {

// A checkpoint needs all workers between two minibatches, so that an epoch has a round for each.
void Worker::RunRounds() {
  if (distribution_ != Distribution::kPool) {
    throw UsageError("data.distribution must be 'pool' for workers that take minibatches when they are free");
  }
  const auto workers = [&] { return comm_.world_size() / strategy_->data_share().readers; };
  report::Progress progress(fmt::format("epoch {} of {}", position_.epoch + 1, options_.schedule.epochs),
                            pool_->num_frames() / workers(), "frames",
                            comm_.rank() == 0 ? report::ProgressSink::Default() : report::ProgressSink::Silent());
  progress.StartAt(position_.epoch_frames);
  const int64_t total = pool_->num_minibatches(position_.epoch);
  const int64_t length = options_.checkpoint.steps > 0 ? options_.checkpoint.steps * workers() : total;
  int64_t done = position_.minibatch_in_epoch;
  int64_t came_back = 0;
  // One round at least: a run that goes on may find minibatches that came back before it stopped.
  do {
    const int64_t first_step = position_.step - position_.step_in_epoch;
    strategy_->rounds()->BeginRound(done, std::min(total, done + length));
    RunRound(progress);
    std::tie(done, came_back) = strategy_->rounds()->EndRound();
    // The same on all ranks, whoever took how many.
    position_.minibatch_in_epoch = done;
    position_.step_in_epoch = (done + workers() - 1) / workers();
    position_.step = first_step + position_.step_in_epoch;
    AgreeOnDivergence();
    const double asked = SumOfAll({CancelRequested() ? 1.0 : 0.0})[0];
    if (asked > 0 || done < total || after_loss_) WriteCheckpoint();
    if (asked > 0) Stop();
  } while (done < total || came_back > 0);
  progress.Finish(Note());
}

// One minibatch is trained on while the next is filled.
void Worker::RunRound(report::Progress& progress) {
  const int64_t epoch_start = position_.epoch * pool_->num_minibatches(position_.epoch);
  data::MinibatchBuffer buffers[2];
  std::future<void> filled;
  const auto fetch = [&](std::optional<int64_t> index, size_t slot) {
    if (!index) return;
    filled = std::async(std::launch::async, [this, &buffers, index, slot, epoch = position_.epoch] {
      pool_->Fill(epoch, 0, *index, buffers[slot]);
    });
  };
  std::optional<int64_t> now = strategy_->rounds()->Take();
  fetch(now, 0);
  for (size_t slot = 0; now; slot = 1 - slot) {
    {
      const Timed timed(position_.data_seconds);
      filled.get();
    }
    const std::optional<int64_t> next = strategy_->rounds()->Take();
    fetch(next, 1 - slot);
    position_.minibatch_in_epoch = *now;
    Step(buffers[slot].minibatch, epoch_start + *now, *now);
    const Timed timed(position_.other_seconds);
    progress.Update(position_.epoch_frames, [this] { return Note(); });
    if (CancelRequested() || !divergence_.empty() || (comm_.rank() == 0 && CheckpointDue(position_.step)))
      strategy_->rounds()->StopRound();
    now = next;
  }
}

}  // namespace antiphon::train
