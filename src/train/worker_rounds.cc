// The part of Worker that trains when the workers take minibatches from a common pool whenever they are free.
#include <algorithm>
#include <future>
#include <optional>
#include <tuple>

#include "base/cancel.h"
#include "base/error.h"
#include "train/worker.h"

namespace antiphon::train {

// A checkpoint needs all workers between two minibatches, so that an epoch has a round for each.
void Worker::RunRounds() {
  if (data_.distribution != Distribution::kPool) {
    throw UsageError("data.distribution must be 'pool' for workers that take minibatches when they are free");
  }
  Position& at = state_.position;
  const auto workers = [&] { return comm_.world_size() / strategy().data_share().readers; };
  report::Progress progress(EpochTitle(), pool().num_frames() / workers(), "frames", Sink());
  progress.StartAt(at.epoch_frames);
  const int64_t total = pool().num_minibatches(at.epoch);
  const int64_t length = options_.checkpoint.steps > 0 ? options_.checkpoint.steps * workers() : total;
  int64_t done = at.minibatch_in_epoch;
  int64_t came_back = 0;
  // One round at least: a run that goes on may find minibatches that came back before it stopped.
  do {
    const int64_t first_step = at.step - at.step_in_epoch;
    strategy().rounds()->BeginRound(done, std::min(total, done + length));
    RunRound(progress);
    std::tie(done, came_back) = strategy().rounds()->EndRound();
    // The same on all ranks, whoever took how many.
    at.minibatch_in_epoch = done;
    at.step_in_epoch = (done + workers() - 1) / workers();
    at.step = first_step + at.step_in_epoch;
    guard_.AgreeOnDivergence();
    const double asked = SumOfAll(comm_, {CancelRequested() ? 1.0 : 0.0})[0];
    if (asked > 0 || done < total || after_loss_) WriteCheckpoint();
    if (asked > 0) Stop();
  } while (done < total || came_back > 0);
  progress.Finish(state_.Note());
}

// One minibatch is trained on while the next is filled.
void Worker::RunRound(report::Progress& progress) {
  Position& at = state_.position;
  const int64_t epoch_start = at.epoch * pool().num_minibatches(at.epoch);
  data::MinibatchBuffer buffers[2];
  std::future<void> filled;
  const auto fetch = [&](std::optional<int64_t> index, size_t slot) {
    if (!index) return;
    filled = std::async(std::launch::async, [this, &buffers, index, slot, epoch = at.epoch] {
      pool().Fill(epoch, 0, *index, buffers[slot]);
    });
  };
  parallel::TakesWhenFree& rounds = *strategy().rounds();
  std::optional<int64_t> now = rounds.Take();
  fetch(now, 0);
  for (size_t slot = 0; now; slot = 1 - slot) {
    {
      const Timed timed(at.data_seconds);
      filled.get();
    }
    const std::optional<int64_t> next = rounds.Take();
    fetch(next, 1 - slot);
    at.minibatch_in_epoch = *now;
    Step(buffers[slot].minibatch, epoch_start + *now, *now);
    const Timed timed(at.other_seconds);
    progress.Update(at.epoch_frames, [this] { return state_.Note(); });
    if (CancelRequested() || guard_.found() || (comm_.rank() == 0 && rendezvous_.Due(at.step))) rounds.StopRound();
    now = next;
  }
}

}  // namespace antiphon::train
