#include "train/step_loop.h"

#include "base/error.h"
#include "report/progress.h"
#include "train/timed.h"

namespace antiphon::train {

// What is left of the epoch for this rank.
std::unique_ptr<data::MinibatchStream> StepLoop::OpenStream() {
  const parallel::DataShare share = run_.strategy().data_share();
  const Position& at = run_.position();
  active_workers_ = share.count;
  if (run_.data.distribution != Distribution::kPool) {
    return std::make_unique<data::MinibatchStream>(run_.data.pool, run_.comm.rank() / share.readers, at.epoch,
                                                   at.step_in_epoch);
  }
  const data::Stripe stripe{at.epoch, at.minibatch_in_epoch, share.index, share.count, run_.order.returned()};
  return std::make_unique<data::MinibatchStream>(run_.data.pool, stripe);
}

void StepLoop::RunEpoch() {
  run_.counts.Meet(run_.position());
  std::unique_ptr<data::MinibatchStream> stream = OpenStream();
  report::Progress progress = run_.ShowProgress(run_.pool().num_frames(run_.position().epoch) / active_workers_);
  progress.StartAt(run_.position().epoch_frames);
  for (;;) {
    data::Minibatch* minibatch = nullptr;
    {
      double hidden = 0;  // simulated devices have their data at hand
      const Timed timed(run_.comm.time_is_virtual() ? hidden : run_.state.position.data_seconds);
      if (active_workers_ != run_.strategy().data_share().count) stream = OpenStream();
      minibatch = Take(*stream);
    }
    if (minibatch == nullptr) break;
    step_.Run(*minibatch, Place());
    const Timed timed(run_.state.position.other_seconds);
    progress.Update(run_.position().epoch_frames, [this] { return run_.state.Note(); });
    if (const Rendezvous::Decision decision = ReachAgreement(); decision.stop) saver_.Stop(decision.workers);
    if (saver_.loss_unsaved()) {
      saver_.Write();
      stream = OpenStream();
    }
  }
  if (run_.comm.world_size() > 1 && !run_.strategy().synchronous()) WaitForEndOfEpoch();
  for (const parallel::StepOutput& output : run_.strategy().Drain()) step_.Account(output);
  progress.Finish(run_.state.Note());
}

// A request to stop ends the waiting for data that come from far away, between two steps.
data::Minibatch* StepLoop::Take(data::MinibatchStream& stream) {
  try {
    return stream.Next();
  } catch (const Cancelled& e) {
    if (run_.comm.world_size() > 1) RunSaver::StopUnsaved(e, "where the workers cannot save together");
  }
  saver_.Write();
  saver_.Stop();
}

// Of the step that all workers take now.
StepPlace StepLoop::Place() {
  const parallel::DataShare share = run_.strategy().data_share();
  const Position& at = run_.position();
  const data::MinibatchPool& pool = run_.pool();
  StepPlace place;
  place.mask_step = at.step * (run_.comm.world_size() / share.readers) + share.index;
  if (run_.data.distribution != Distribution::kPool) {
    place.next = at.minibatch_in_epoch + active_workers_;
    place.step_fullness = FullnessOfStep(pool, at.epoch, at.step_in_epoch, active_workers_);
    return place;
  }
  place.next = run_.order.Take(at.epoch, at.minibatch_in_epoch, pool.num_minibatches(at.epoch), active_workers_);
  // What came back stands between the others.
  place.step_fullness = 0;
  const std::vector<data::MinibatchId>& step = run_.order.last_step();
  for (size_t w = 0; w < step.size(); ++w) {
    place.step_fullness += pool.Fullness(step[w].epoch, 0, step[w].index) / active_workers_;
    if (run_.counts.known()) run_.counts.Take(w, run_.FramesOf(step[w]));
  }
  return place;
}

// Between two steps: falls back or saves if one of the ranks has to. If it says to stop, everything is saved.
Rendezvous::Decision StepLoop::ReachAgreement() {
  const bool in_step = run_.comm.world_size() == 1 || run_.strategy().synchronous();
  const int64_t step = run_.position().step;
  const Rendezvous::Decision decision =
      in_step ? saver_.rendezvous().InStep(step, run_.guard.found()) : saver_.rendezvous().AtMeeting(step);
  if (decision.diverged) run_.guard.AgreeOnDivergence();
  if (decision.stop || decision.save) saver_.Write();
  return decision;
}

void StepLoop::WaitForEndOfEpoch() {
  while (const auto decision = saver_.rendezvous().AtEndOfEpoch(run_.position().step)) {
    if (decision->stop || decision->save) saver_.Write();
    if (decision->stop) saver_.Stop(decision->workers);
  }
}

}  // namespace antiphon::train
