#include "train/round_loop.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "train/timed.h"

namespace antiphon::train {

void RoundLoop::RunEpoch() {
  if (run_.data.distribution != Distribution::kPool) {
    throw UsageError("data.distribution must be 'pool' for workers that take minibatches when they are free");
  }
  Position& at = run_.state.position;
  report::Progress progress = run_.ShowProgress(run_.pool().num_frames(at.epoch) / Workers());
  progress.StartAt(at.epoch_frames);
  const int64_t total = run_.pool().num_minibatches(at.epoch);
  const int64_t steps = run_.options.checkpoint.steps;
  const int64_t length = steps > 0 ? steps * Workers() : total;
  int64_t done = at.minibatch_in_epoch;
  int64_t came_back = 0;
  // One round at least: a run that goes on may find minibatches that came back before it stopped.
  do {
    const int64_t first_step = at.step - at.step_in_epoch;
    parallel::TakesWhenFree& rounds = *run_.strategy().rounds();
    run_.counts.Meet(at);
    rounds.BeginRound(done, std::min(total, done + length));
    RunRound(progress);
    std::tie(done, came_back) = rounds.EndRound();
    AccountExchange();
    // The same on all ranks, whoever took how many.
    at.minibatch_in_epoch = done;
    at.step_in_epoch = (done + Workers() - 1) / Workers();
    at.step = first_step + at.step_in_epoch;
    run_.guard.AgreeOnDivergence();
    const RunRequests::Asked asked = AskedOfAny(run_.comm, saver_.requests().Look());
    if (asked.any() || done < total || saver_.loss_unsaved()) saver_.Write();
    if (asked.any()) saver_.Stop(asked.workers);
  } while (done < total || came_back > 0);
  progress.Finish(run_.state.Note());
}

// What rounds took; steps report their own.
void RoundLoop::AccountExchange() { run_.state.position.communication_seconds += run_.strategy().TakeCommunication(); }

// A request to stop ends the waiting for data that come from far away.
void RoundLoop::Await(std::future<void>& filled) {
  const Timed timed(run_.state.position.data_seconds);
  try {
    filled.get();
  } catch (const Cancelled& e) {
    RunSaver::StopUnsaved(e, "in the middle of a round, where nothing can be saved");
  }
}

// One minibatch is trained on while the next is filled.
void RoundLoop::RunRound(report::Progress& progress) {
  Position& at = run_.state.position;
  const int64_t epoch_start = at.epoch * run_.pool().num_minibatches(at.epoch);
  data::MinibatchBuffer buffers[2];
  std::future<void> filled;
  const auto fetch = [&](std::optional<int64_t> index, size_t slot) {
    if (!index) return;
    filled = std::async(std::launch::async, [this, &buffers, index, slot, epoch = at.epoch] {
      run_.pool().Fill(epoch, 0, *index, buffers[slot]);
    });
  };
  parallel::TakesWhenFree& rounds = *run_.strategy().rounds();
  const auto take = [&] {
    const std::optional<int64_t> minibatch = rounds.Take();
    AccountExchange();
    return minibatch;
  };
  std::optional<int64_t> now = take();
  fetch(now, 0);
  for (size_t slot = 0; now; slot = 1 - slot) {
    Await(filled);
    const std::optional<int64_t> next = take();
    fetch(next, 1 - slot);
    at.minibatch_in_epoch = *now;
    step_.Run(buffers[slot].minibatch, {.mask_step = epoch_start + *now, .next = *now + 1, .minibatch = *now});
    const Timed timed(at.other_seconds);
    progress.Update(at.epoch_frames, [this] { return run_.state.Note(); });
    const bool save = run_.comm.rank() == 0 && saver_.rendezvous().Due(at.step);
    if (saver_.requests().Look().any() || run_.guard.found() || save) rounds.StopRound();
    now = next;
  }
}

}  // namespace antiphon::train
