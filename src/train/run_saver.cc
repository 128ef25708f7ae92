#include "train/run_saver.h"

#include <fmt/format.h>

#include <memory>
#include <set>
#include <utility>

#include "comm/rank_threads.h"
#include "train/divided_model.h"
#include "train/experiment.h"

namespace antiphon::train {
namespace {

// Whether other numbers of workers can go on at the ends of epochs alone (train/run_loader.h).
bool WaitsForEpochs(RunParts& run) {
  return run.data.distribution != Distribution::kPool || run.strategy().minibatches_under_way() > 1;
}

}  // namespace

RunSaver::RunSaver(RunParts& run)
    : run_(run),
      checkpoints_(CheckpointPath(run.task.folder), run.options.checkpoint.keep, run.comm),
      requests_(run.task.folder, run.task.parallel, WaitsForEpochs(run), run.comm),
      rendezvous_(run.options.checkpoint, requests_, run.comm) {
  checkpoints_.DrawNumber();
}

void RunSaver::Write() {
  run_.guard.LookAtValues(run_.network().values(), run_.strategy());
  run_.guard.AgreeOnDivergence();
  Finish();
  run_.state.CountBytes();
  if (parallel::Checkpointable* const state = run_.strategy().state()) state->BeforeSave();
  loss_unsaved_ = false;  // unless another one is found while this is written
  Begin();
  rendezvous_.Saved();
}

// What this rank need not write; null: it writes everything.
std::function<bool(std::string_view)> RunSaver::SavedByFirst() {
  if (run_.comm.rank() == 0 || run_.replica.parts() != nullptr) return nullptr;
  parallel::Checkpointable* const state = run_.strategy().state();
  const parallel::CommonState common = state != nullptr ? state->common_state() : parallel::CommonState();
  std::set<std::string, std::less<>> names;
  for (const nn::Parameter* p : run_.network().parameters()) {
    if (common.values) names.insert("network." + p->name);
    for (size_t k = 0; common.values_always && k < run_.position().averaged.size(); ++k) {
      names.insert(KeptModels::AveragePrefix(k) + p->name);
    }
    // All have evaluated it (parallel/strategy.h).
    if (run_.strategy().data_share().readers == 1) names.insert("best." + p->name);
  }
  for (const std::string& name : common.tensors) names.insert("strategy" + name);
  return [names = std::move(names), optimizer = common.optimizer](std::string_view name) {
    return names.contains(name) || (optimizer && name.starts_with("optimizer"));
  };
}

void RunSaver::Begin() {
  Position& at = run_.state.position;
  at.best_is_current = run_.kept.BestIsCurrent(run_.network(), run_.comm);
  run_.state.log().NotePosition(at);
  auto kept = std::make_shared<SafetensorsWriter>();
  SafetensorsWriter& writer = *kept;
  writer.LeaveOut(SavedByFirst());
  writer.SetMetadata("experiment", ExperimentText(run_.task, run_.options, run_.network(), run_.inputs));
  writer.SetMetadata("workers", std::to_string(run_.comm.world_size()));
  SaveNetwork(writer, "network.", run_.network());
  SaveParts(writer, run_.replica.parts());
  run_.kept.Save(writer, run_.network(), at);
  parallel::SaveOptimizer(writer, run_.replica.optimizer(), run_.replica.value_share());
  if (parallel::Checkpointable* const state = run_.strategy().state()) state->SaveState(writer, "strategy");
  run_.strategy().SaveStreams(writer, "streams");
  run_.schedule.SaveState(writer, "schedule");
  run_.order.SaveState(writer);
  at.Save(writer);
  checkpoints_.Begin(std::move(kept), at.step, run_.replica.copies_checkpoints());
}

void RunSaver::WritePretraining(int64_t step, const std::function<void(SafetensorsWriter&)>& add_state,
                                const std::function<bool(std::string_view)>& common) {
  Finish();
  run_.state.log().NotePosition(run_.state.position);
  auto kept = std::make_shared<SafetensorsWriter>();
  SafetensorsWriter& writer = *kept;
  if (run_.comm.rank() > 0) {
    // Stages that are done left all ranks one network, but for statistics.
    std::set<std::string, std::less<>> names;
    for (const nn::Parameter* p : run_.network().parameters()) names.insert("network." + p->name);
    writer.LeaveOut(
        [names = std::move(names), common](std::string_view name) { return names.contains(name) || common(name); });
  }
  writer.SetMetadata("experiment", ExperimentText(run_.task, run_.options, run_.network(), run_.inputs));
  writer.SetMetadata("workers", std::to_string(run_.comm.world_size()));
  SaveNetwork(writer, "network.", run_.network());
  run_.position().Save(writer);
  add_state(writer);
  checkpoints_.BeginPretraining(std::move(kept), step, run_.replica.copies_checkpoints());
  rendezvous_.Saved();
}

void RunSaver::FinishPretraining() {
  Finish();
  checkpoints_.ClearPretraining();
}

void RunSaver::NoteLoss() {
  checkpoints_.Renumber();
  loss_unsaved_ = true;
}

void RunSaver::Stop(int workers) {
  Finish();
  while (loss_unsaved_) {
    Write();
    Finish();
  }
  const Position& at = run_.position();
  const std::string where = fmt::format("in epoch {} after {} steps", at.epoch + 1, at.step);
  if (workers == 0) throw comm::AgreedToStop(CancelledMessage(where));
  throw WorkersChanged(fmt::format("{} workers are to go on {}; everything is saved", workers, where), workers);
}

void RunSaver::StopUnsaved(const Cancelled& request, std::string_view where) {
  Throw<IoError>("{}, {}; --resume goes on from the last checkpoint", request.what(), where);
}

std::string RunSaver::CancelledMessage(const std::string& where) const {
  return fmt::format("stopped on request {}; {}", where,
                     run_.task.resume_hint.empty() ? "started again, this training begins anew"
                                                   : "everything is saved. To go on: " + run_.task.resume_hint);
}

}  // namespace antiphon::train
