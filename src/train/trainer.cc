#include "train/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "base/finally.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "base/loss_text.h"
#include "comm/fault_injection.h"
#include "comm/process_group.h"
#include "comm/rank_threads.h"
#include "parallel/strategy_traits.h"
#include "report/pages/training_report.h"
#include "train/agreement.h"
#include "train/data_share.h"
#include "train/dead_units.h"
#include "train/pretrain.h"
#include "train/run_log.h"
#include "train/warm_start.h"
#include "train/worker.h"

namespace antiphon::train {

namespace fs = std::filesystem;

namespace {

constexpr int kLockAttempts = 50;
constexpr std::chrono::milliseconds kBetweenLockAttempts{100};

}  // namespace

fs::path ModelFile(const fs::path& run_folder) { return run_folder / "model.safetensors"; }
fs::path CheckpointPath(const fs::path& run_folder) { return run_folder / "checkpoint"; }

struct Trainer::Impl {
  Impl(TrainingTask its_task, const TrainOptions& its_options, comm::Communicator& its_comm)
      : task(std::move(its_task)), options(its_options), comm(its_comm) {
    options.data.distribution = ChooseDistribution(task, options, comm.world_size());
  }

  TrainingSummary Train(bool resume);

  TrainingSummary Run(bool resume);
  void Prepare();
  void RunEpochs();
  void EndEpoch(const EvaluationResult& result);
  TrainingSummary Finish();
  void WriteResults(const EvaluationResult& result, const std::vector<float>& log_priors, TrainingSummary& summary);
  bool TakeAverage(EvaluationResult& result);
  nn::Model MakeModel(const EvaluationResult& result, std::vector<float> log_priors);
  void FallBack(const std::string& reason);
  void HoldFolder();
  void HoldFolderOfLost();
  void TakeOver();

  TrainingTask task;
  TrainOptions options;
  parallel::SurvivingCommunicator comm;
  std::optional<FolderLock> lock;  // of rank 0, for all
  std::unique_ptr<Worker> worker;
};

Trainer::Trainer(TrainingTask task, const TrainOptions& options, comm::Communicator& comm)
    : impl_(std::make_unique<Impl>(std::move(task), options, comm)) {}
Trainer::~Trainer() = default;

TrainingSummary Trainer::Run(bool resume) {
  return WithContext([&] { return impl_->Run(resume); },
                     [&] { return fmt::format("training '{}'", impl_->task.folder.string()); });
}

bool Trainer::is_first() const { return impl_->comm.rank() == 0; }

TrainingSummary Trainer::Impl::Run(bool resume) {
  try {
    return Train(resume);
  } catch (const comm::PeerLost&) {
    comm.GiveUp();
    throw;
  } catch (const comm::AgreedToStop&) {
    comm.Leave();
    throw;
  } catch (const comm::WorldEnds&) {
    comm.Leave();
    throw;
  }
}

TrainingSummary Trainer::Impl::Train(bool resume) {
  comm.set_deadline_seconds(options.deadline_seconds);
  AgreeOnExperiment(comm, DescribeForAgreement(task, options, comm.world_size(), resume));
  if (comm.rank() == 0) task.after_loss ? HoldFolderOfLost() : HoldFolder();
  // The folder is not given away while something is still written there.
  const Finally written([this] {
    if (worker) worker->saver().Wait();
    lock.reset();
  });
  comm::FaultPoint("start", comm.rank(), 0);
  worker = std::make_unique<Worker>(task, options, comm);
  const bool goes_on = resume && worker->loader().LoadNewest();
  if (!goes_on && !(resume && worker->loader().LoadPretraining())) {
    if (resume) log::Warn("nothing to go on with in '{}': starting anew", CheckpointPath(task.folder).string());
    worker->StartAnew();
  }
  if (task.on_begun) task.on_begun();
  if (comm.rank() == 0) {
    RemoveMetRequest(task.folder, comm.world_size());
    if (task.on_folder_taken) task.on_folder_taken();
  }
  if (!goes_on) Prepare();
  if (!task.note.empty()) worker->log().Event(worker->position(), "restart", task.note);
  worker->GoOnWithoutLost([this] { TakeOver(); });
  const std::vector<std::string> plan = worker->DescribePlan();
  for (size_t i = 0; i < plan.size() && comm.rank() == 0; ++i) log::Info("{}", plan[i]);
  RunEpochs();
  TrainingSummary summary = Finish();
  comm.Leave();
  return summary;
}

void Trainer::Impl::HoldFolder() {
  lock.emplace(task.folder, kTrainLock,
               fmt::format("another training is working in '{}': wait for it, or choose another folder (--out)",
                           task.folder.string()));
}

// The system lets go of what a dead process held, that of another machine perhaps late.
void Trainer::Impl::HoldFolderOfLost() {
  for (int attempt = 0; attempt < kLockAttempts && FolderLock::IsHeld(task.folder, kTrainLock); ++attempt) {
    std::this_thread::sleep_for(kBetweenLockAttempts);
  }
  try {
    HoldFolder();
  } catch (const Error& e) {
    const std::chrono::duration<double> waited = kLockAttempts * kBetweenLockAttempts;
    log::Warn("'{}' is still held for the lost rank 0 after {} s; going on without it ({})",
              (task.folder / kTrainLock).string(), waited.count(), e.what());
  }
}

void Trainer::Impl::TakeOver() {
  HoldFolderOfLost();
  if (task.on_taking_over) task.on_taking_over();
}

// What comes before the first step: pre-training, and the untrained model's held-out loss, from which newbob starts.
void Trainer::Impl::Prepare() {
  Pretrain(task, options, comm, *worker);
  worker->loader().StartStrategy();
  const EvaluationResult result = worker->EvaluateHeldOut(false);
  worker->run().schedule.SetInitialLoss(result.loss.loss());
  worker->log().Write(report::MetricsRecord("start")
                          .Set("held_out_loss", result.loss.loss())
                          .Set("held_out_accuracy", result.loss.frame_accuracy())
                          .Set("parameters", worker->run().replica.outline().num_whole_parameters())
                          .Set("frames_per_epoch", worker->run().pool().num_frames()));
  worker->RememberBest();
  worker->saver().Write();
  worker->saver().FinishPretraining();
}

void Trainer::Impl::RunEpochs() {
  while (!worker->position().finished) {
    // Also of a run that comes back to where it was to pause; everything is saved there.
    if (task.pause_after_epochs > 0 && worker->position().epoch >= task.pause_after_epochs) worker->saver().Stop();
    try {
      EvaluationResult result;
      do {
        worker->RunEpoch();
        worker->EndSteps();
        result = worker->EvaluateHeldOut(false);
      } while (worker->has_returned());
      EndEpoch(result);
      worker->StopIfAsked();
    } catch (const Diverged& e) {
      FallBack(e.what());
    }
  }
}

void Trainer::Impl::EndEpoch(const EvaluationResult& result) {
  if (!std::isfinite(result.loss.loss())) throw Diverged("the held-out loss is not finite");
  const double rate = worker->run().LearningRate();
  const optim::EpochDecision decision = worker->run().schedule.EndEpoch(result.loss.loss());
  worker->run().state.LogEpoch(result.loss, rate, decision.accept, worker->strategy());
  if (comm.rank() == 0) {
    for (const std::string& line : DescribeDeadUnits(worker->network())) log::Warn("{}", line);
  }
  if (decision.accept) {
    worker->RememberBest();
  } else {
    worker->RestoreBest();
  }
  worker->run().state.NextEpoch(decision.stop);
  worker->saver().Write();
  if (comm.rank() == 0) report::WriteTrainingReport(task.folder);
}

void Trainer::Impl::FallBack(const std::string& reason) {
  const Position failed = worker->position();
  const int fallbacks = failed.fallbacks + 1;
  if (fallbacks > options.guard.max_fallbacks) {
    worker->log().Event(failed, "diverged", fmt::format("{}; given up after {} attempts", reason, fallbacks));
    Throw<DivergenceError>(
        "epoch {}, step {}: {}; fell back {} times with lower rates, and it happened again. Lower "
        "schedule.learning-rate (now {}), "
        "or set optimizer.max-change",
        failed.epoch + 1, failed.step, reason, options.guard.max_fallbacks, options.schedule.learning_rate);
  }
  worker->loader().LoadAfterFailure(failed, fallbacks);
  worker->log().Event(worker->position(), "fallback",
                      fmt::format("epoch {}, step {}: {}; back to step {} with rates × {}", failed.epoch + 1,
                                  failed.step, reason, worker->position().step, options.guard.rate_factor));
  worker->saver().Write();
}

// Replaces the network by the average of its last states that is best on the held-out set, if it is better than the
// last state.
bool Trainer::Impl::TakeAverage(EvaluationResult& result) {
  const size_t averages = worker->CountAverages();
  if (averages == 0) return false;
  if (comm.rank() == 0) {
    log::Info("last model: held-out loss {}, frame accuracy {:.2f} %", LossText(result.loss.loss()),
              100 * result.loss.frame_accuracy());
  }
  nn::Network best = worker->network().Clone();
  bool taken = false;
  for (size_t k = 0; k < averages; ++k) {
    worker->SwapInAverage(k);
    worker->RefreshStatistics();
    EvaluationResult averaged = worker->EvaluateHeldOut(true);
    const bool better = averaged.loss.loss() < result.loss.loss();
    if (comm.rank() == 0) {
      log::Info("average of the last {} models: held-out loss {}, frame accuracy {:.2f} %, {}",
                worker->position().averaged[k], LossText(averaged.loss.loss()), 100 * averaged.loss.frame_accuracy(),
                better ? "better" : "no better");
    }
    if (!better) continue;
    taken = true;
    result = std::move(averaged);
    best.CopyFrom(worker->network());
  }
  worker->network().CopyFrom(best);
  return taken;
}

nn::Model Trainer::Impl::MakeModel(const EvaluationResult& result, std::vector<float> log_priors) {
  nn::Model model;
  model.feature_config = task.feature_config;
  model.speaker_model = task.speaker_model;
  model.ivector_extractor = task.ivector_extractor;
  model.feature_dim = task.store->feat_dim();
  model.left_context = options.data.left_context;
  model.right_context = options.data.right_context;
  model.frames_per_forward = options.frames_per_forward;
  model.first_frame_offset = options.first_frame_offset;
  if (task.hmm) model.hmm_json = task.hmm->ToJson();
  if (const SequenceTask* const sequence = worker->run().data.sequence.get(); sequence != nullptr) {
    model.frame_subsampling = sequence->frame_subsampling();
  } else if (task.initial) {
    model.frame_subsampling = task.initial->frame_subsampling;
  }
  model.log_priors = std::move(log_priors);
  if (task.initial) model.descriptions = task.initial->descriptions;
  const std::map<std::string, std::string> run = {
      {"trained_by", fmt::format("antiphon train, method {}", parallel::MethodOf(task.parallel))},
      {"seed", std::to_string(task.seed)},
      {"frame_accuracy", fmt::format("{:.4f}", result.loss.frame_accuracy())},
      {"held_out_loss", LossText(result.loss.loss())},
      {"epochs", std::to_string(worker->position().epoch)},
      {"steps", std::to_string(worker->position().step)}};
  for (const auto& [key, value] : run) model.descriptions[key] = value;
  if (const std::string said = data::KindOf(*task.store).normalisation; !said.empty()) {
    model.descriptions[kNormalisation] = said;
  }
  if (!task.held_out_store) {
    const std::string text = HeldOutText(options.held_out, task.seed);
    model.descriptions["held_out"] = text;
    model.descriptions[HeldOutKey(task.store->fingerprint())] = text;
  }
  return model;
}

TrainingSummary Trainer::Impl::Finish() {
  comm::FaultPoint("end", comm.rank(), worker->position().step);
  worker->strategy().Finish();
  worker->RefreshStatistics();
  EvaluationResult result = worker->EvaluateHeldOut(true);
  const bool averaged = TakeAverage(result);
  TrainingSummary summary = worker->run().state.Summary(worker->strategy());
  summary.held_out_loss = result.loss.loss();
  summary.held_out_accuracy = result.loss.frame_accuracy();
  summary.phone_accuracy = result.confusion.accuracy();
  summary.averaged = averaged;
  worker->saver().Finish();
  // Once more if a worker is lost meanwhile: it may be the one that writes, which alone may know the priors.
  for (summary.lost_workers = -1; summary.lost_workers != worker->position().lost_workers;) {
    summary.lost_workers = worker->position().lost_workers;
    summary.given_back = worker->position().given_back;
    const std::vector<float> log_priors = worker->evaluation().LogPriors();
    WriteResults(result, log_priors, summary);
    comm.Together([this] { comm.Barrier(); });
  }
  return summary;
}

void Trainer::Impl::WriteResults(const EvaluationResult& result, const std::vector<float>& log_priors,
                                 TrainingSummary& summary) {
  const bool writes = comm.rank() == 0;
  if (writes) worker->evaluation().ProbeSideTask(summary);
  summary.model_hash =
      worker->run().replica.Save(writes ? MakeModel(result, log_priors) : nn::Model(), ModelFile(task.folder));
  if (!writes) return;
  if (!result.confusion.names.empty()) result.confusion.Save(task.folder / "confusion.json");
  worker->run().state.LogFinish(summary);
  report::WriteTrainingReport(task.folder);
  RemoveRequest(task.folder);  // that came too late
}

}  // namespace antiphon::train
