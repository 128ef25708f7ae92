#include "train/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/cancel.h"
#include "base/log.h"
#include "base/random.h"
#include "comm/fault_injection.h"
#include "data/feature_kind.h"
#include "kernels/parallel.h"
#include "train/data_share.h"
#include "train/further.h"
#include "train/random_streams.h"

namespace antiphon::train {
namespace {

constexpr int64_t kRoughFrames = 50000;  // for batch statistics between epochs
constexpr double kRunningLossDecay = 0.95;
// With several ranks, every so many steps they agree on whether to stop, to save or to fall back.
constexpr int64_t kAgreementSteps = 16;

data::Mixing MixingOf(const TrainingTask& task, const TrainOptions& options) {
  data::Mixing mixing = task.mixing;
  mixing.epochs = options.schedule.epochs;
  if (mixing.utterances.empty() || task.held_out_store) return mixing;
  throw UsageError("speech that is mixed in needs a held-out store: it could be held out otherwise");
}

}  // namespace

Worker::Worker(const TrainingTask& task, const TrainOptions& options, parallel::SurvivingCommunicator& comm)
    : task_(task),
      options_(options),
      comm_(comm),
      distribution_(DistributionOf(options.data)),
      dropout_(options.dropout_schedule),
      checkpoints_(CheckpointPath(task.folder), comm.rank(), comm.world_size(), options.checkpoint.keep),
      pretraining_(CheckpointPath(task.folder) / "pretraining", comm.rank(), comm.world_size(),
                   options.checkpoint.keep),
      schedule_(options.schedule) {
  if (options.average.share > 0 && schedule_.decides()) {
    throw UsageError(
        "average.share needs a run whose length is known, but schedule.type 'newbob' stops when it likes: "
        "leave one of the two out");
  }
  if (task.initial && options.pretrain.method != PretrainMethod::kNone) {
    throw UsageError("pretrain.method grows a new network: leave it out when an initial model goes on learning");
  }
  sequence_ = SequenceTask::Open(task, options);
  SplitData();
  Describe();
  data::MinibatchOptions data_options = options.data;
  data_options.carry_state = options.data.carry_state && outline_.recurrent() && !sequence_;
  if (sequence_) {
    sequence_->KeepThoseThatAreKnown(*task.store, train_utterances_);
    sequence_->KeepThoseThatAreKnown(*held_out_store_, held_out_utterances_);
    data_options = sequence_->Pieces(*task.store, data_options);
  }
  std::unique_ptr<parallel::ModelParts> parts = parallel::DivideModel(task.parallel, outline_, comm);
  if (parts && distribution_ == Distribution::kShards) {
    throw UsageError("data.distribution must be 'pool' or 'shares' where ranks hold one replica together");
  }
  pool_ = std::make_shared<const data::MinibatchPool>(task.store, data_options, SeedOf(task.seed, RandomStream::kData),
                                                      comm.world_size() / (parts ? parts->ranks() : 1),
                                                      train_utterances_, data::InputNormalisation{},
                                                      outline_.time_context(), MixingOf(task, options));
  RequireShards(comm, *task.store, *pool_);
  FetchAhead(*task.store, *pool_, comm.rank());
  if (pool_->num_frames() < int64_t{options.data.minibatch} * comm.world_size()) {
    Throw<UsageError>("{} training frames are fewer than {} worker(s) × minibatch {}: take a smaller data.minibatch",
                      pool_->num_frames(), comm.world_size(), options.data.minibatch);
  }
  if (task.hmm) phones_.emplace(*task.hmm);
  Build(std::move(parts));
  DrawWritingNumber();
}

void Worker::SplitData() {
  if (!task_.store->labelled() && (!task_.held_out_store || options_.priors == PriorSource::kAlignment)) {
    Throw<UsageError>(
        "the store '{}' has no alignment: training needs a held-out store that has one, and priors = "
        "\"posteriors\"",
        task_.store->folder().string());
  }
  held_out_store_ = task_.held_out_store ? task_.held_out_store : task_.store;
  if (task_.hmm && task_.hmm->num_pdfs() != task_.store->num_pdfs()) {
    Throw<InputError>("the store '{}' has {} pdf-ids, but the HMM has {}: they do not belong together",
                      task_.store->folder().string(), task_.store->num_pdfs(), task_.hmm->num_pdfs());
  }
  data::FeatureKind kind = data::KindOf(task_.feature_config, task_.speaker_model);
  if (task_.initial) kind.normalisation = KindTakenBy(*task_.initial).normalisation;
  data::RequireKind(*task_.store, kind, "the network");
  if (task_.held_out_store) {
    data::RequireKind(*held_out_store_, kind, "the network");
    data::RequireKind(*held_out_store_, data::KindOf(*task_.store),
                      fmt::format("'{}'", task_.store->folder().string()));
    if (held_out_store_->feat_dim() != task_.store->feat_dim() ||
        held_out_store_->num_pdfs() > task_.store->num_pdfs()) {
      Throw<InputError>("the held-out store '{}' has {} features and {} pdf-ids, the training store {} and {}",
                        held_out_store_->folder().string(), held_out_store_->feat_dim(), held_out_store_->num_pdfs(),
                        task_.store->feat_dim(), task_.store->num_pdfs());
    }
    return;
  }
  if (distribution_ == Distribution::kShards) {
    throw UsageError(
        "data.distribution 'shards' needs --held-out-store, as no worker can read speakers held out of all shards");
  }
  DataSplit split = SplitForRun(*task_.store, options_.held_out, task_.seed);
  train_utterances_ = std::move(split.train);
  held_out_utterances_ = std::move(split.held_out);
  held_out_by_speaker_ = split.by_speaker;
}

double Worker::Progress() const {
  const bool common = distribution_ == Distribution::kPool;
  const int64_t done = common ? position_.minibatch_in_epoch : position_.step_in_epoch;
  const int64_t all = common ? pool_->num_minibatches(position_.epoch) : pool_->steps_per_epoch(position_.epoch);
  const double share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, all));
  return std::min(1.0, (static_cast<double>(position_.epoch) + share) / options_.schedule.epochs);
}

// What is left of the epoch for this rank.
std::unique_ptr<data::MinibatchStream> Worker::OpenStream() const {
  const parallel::DataShare share = strategy_->data_share();
  if (distribution_ != Distribution::kPool) {
    return std::make_unique<data::MinibatchStream>(pool_, comm_.rank() / share.readers, position_.epoch,
                                                   position_.step_in_epoch);
  }
  const data::Stripe stripe{position_.epoch, position_.minibatch_in_epoch, share.index, share.count, order_.returned()};
  return std::make_unique<data::MinibatchStream>(pool_, stripe);
}

void Worker::RunEpoch() {
  if (strategy_->rounds() != nullptr) return RunRounds();
  std::unique_ptr<data::MinibatchStream> stream = OpenStream();
  active_workers_ = strategy_->data_share().count;
  const int64_t frames = pool_->num_frames() / active_workers_;
  report::Progress progress(fmt::format("epoch {} of {}", position_.epoch + 1, options_.schedule.epochs), frames,
                            "frames",
                            comm_.rank() == 0 ? report::ProgressSink::Default() : report::ProgressSink::Silent());
  progress.StartAt(position_.epoch_frames);
  for (;;) {
    data::Minibatch* minibatch = nullptr;
    {
      double hidden = 0;  // simulated devices have their data at hand
      const Timed timed(comm_.time_is_virtual() ? hidden : position_.data_seconds);
      if (active_workers_ != strategy_->data_share().count) stream = OpenStream();
      active_workers_ = strategy_->data_share().count;
      minibatch = stream->Next();
    }
    if (minibatch == nullptr) break;
    const parallel::DataShare share = strategy_->data_share();
    Step(*minibatch, position_.step * (comm_.world_size() / share.readers) + share.index);
    const Timed timed(position_.other_seconds);
    progress.Update(position_.epoch_frames, [this] { return Note(); });
    const bool stop = ReachAgreement();
    if (stop) Stop();
    if (after_loss_) {
      WriteCheckpoint();
      stream = OpenStream();
      active_workers_ = strategy_->data_share().count;
    }
  }
  if (comm_.world_size() > 1 && !strategy_->synchronous() && WaitForEndOfEpoch()) Stop();
  for (const parallel::StepOutput& output : strategy_->Drain()) Account(output);
  progress.Finish(Note());
}

// Between two steps: falls back, saves or stops if one of the ranks has to. True: stop; everything is saved.
bool Worker::ReachAgreement() {
  if (comm_.world_size() == 1) {
    const bool stop = CancelRequested();
    if (stop || CheckpointDue(position_.step)) WriteCheckpoint();
    return stop;
  }
  if (!strategy_->synchronous()) return ReachMeeting();
  const bool by_steps = options_.checkpoint.steps > 0 && position_.step % options_.checkpoint.steps == 0;
  if (!by_steps && position_.step % kAgreementSteps != 0) return false;
  // Clocks differ between ranks: the first one's decides.
  const std::vector<double> asked =
      SumOfAll({CancelRequested() ? 1.0 : 0.0, comm_.rank() == 0 && CheckpointDue(position_.step) ? 1.0 : 0.0,
                divergence_.empty() ? 0.0 : 1.0});
  if (asked[2] > 0) AgreeOnDivergence();
  if (asked[0] > 0 || asked[1] > 0 || by_steps) WriteCheckpoint();
  return asked[0] > 0;
}

Worker::Request Worker::AgreeOnRequest(int64_t step) {
  if (comm_.world_size() == 1) return {CancelRequested(), CheckpointDue(step)};
  const bool by_steps = options_.checkpoint.steps > 0 && step % options_.checkpoint.steps == 0;
  if (!by_steps && step % kAgreementSteps != 0) return {};
  const std::vector<double> asked =
      SumOfAll({CancelRequested() ? 1.0 : 0.0, comm_.rank() == 0 && CheckpointDue(step) ? 1.0 : 0.0});
  return {asked[0] > 0, asked[1] > 0 || by_steps};
}

void Worker::StopIfAsked() {
  if (comm_.world_size() == 1 || position_.finished) return;
  if (SumOfAll({CancelRequested() ? 1.0 : 0.0})[0] > 0) Stop();
}

std::vector<double> Worker::SumOfAll(const std::vector<double>& mine) {
  std::vector<double> sums;
  comm_.Together([&] {
    sums = mine;
    comm_.AllReduce(std::span<double>(sums));
  });
  return sums;
}

// Throws on all ranks if the guard of one of them fired, with what the first of these found.
void Worker::AgreeOnDivergence() {
  if (comm_.world_size() == 1) {
    if (!divergence_.empty()) throw Diverged(std::exchange(divergence_, ""));
    return;
  }
  constexpr size_t kLength = 200;
  std::string mine = std::exchange(divergence_, "").substr(0, kLength);
  mine.resize(kLength, '\0');
  std::vector<std::byte> all;
  comm_.Together([&] { all = comm_.AllGather(std::as_bytes(std::span(mine))); });
  for (int r = 0; r < comm_.world_size(); ++r) {
    const std::string theirs(reinterpret_cast<const char*>(all.data()) + static_cast<size_t>(r) * kLength, kLength);
    if (theirs[0] != '\0') throw Diverged(fmt::format("worker {}: {}", r, theirs.c_str()));
  }
}

void Worker::EndSteps() {
  AgreeOnDivergence();
  const double begin = comm_.Now();
  strategy_->AfterEpoch();
  const double exchanged = strategy_->TakeCommunication();
  position_.communication_seconds += exchanged;
  position_.arithmetic_seconds += comm_.Now() - begin - exchanged;
  // No mean of models has its workers' statistics, and those of masked minibatches are not those of whole ones; a rough
  // idea will do until the end.
  const int64_t few = std::max(pool_->num_frames() / 20, int64_t{8} * options_.data.minibatch);
  RefreshStatistics(comm_.world_size() > 1 ? kRoughFrames : std::min(kRoughFrames, few));
}

void Worker::Step(const data::Minibatch& minibatch, int64_t mask_step, int64_t index) {
  parallel::StepInput input;
  input.context.precision = ParsePrecision(options_.precision);
  input.context.training = true;
  input.context.seed = SeedOf(task_.seed, RandomStream::kMasks);
  input.context.step = mask_step;
  input.context.dropout_factor = dropout_.Factor(Progress());
  input.context.sequences = minibatch.sequences;
  input.context.progress = Progress();
  input.features = minibatch.features;
  input.learning_rate = LearningRate();
  input.minibatch = index;
  comm_.SetStep(position_.step);
  comm::FaultPoint("step", comm_.rank(), position_.step);
  if (index < 0) position_.minibatch_in_epoch = TakeInStep();
  // By the communicator's clock, which is virtual on simulated clusters.
  const double begin = comm_.Now();
  input.targets = targets_->Make(minibatch);
  nn::SideTargets* const branches = targets_->side_targets();
  input.context.side_targets = branches;
  if (side_) side_->Join(minibatch, mask_step, input);
  const parallel::StepOutput output = strategy_->Step(input);
  if (branches != nullptr) branch_seen_ += std::exchange(branches->tasks.front().seen, {});
  network_.AfterStep(position_.step);
  const double seconds = comm_.Now() - begin;
  const Timed timed(position_.other_seconds);
  position_.communication_seconds += output.communication_seconds;
  position_.arithmetic_seconds += seconds - output.communication_seconds;
  Account(output);
  // Of the speech, also where only every third has an output.
  const int64_t frames = minibatch.num_frames * outline_.time_context().stride;
  position_.frames += frames;
  position_.epoch_frames += frames;
  ++position_.step;
  ++position_.step_in_epoch;
  if (index >= 0) position_.minibatch_in_epoch = index + 1;
  parallel::SurvivesLosses* const survival = strategy_->survival();
  order_.Settle(survival != nullptr ? survival->steps_at_risk() : 0);
  log_frames_ += frames;
  AverageStep();
  if (position_.step % options_.log_steps == 0) LogSteps(input.learning_rate);
}

void Worker::Account(const parallel::StepOutput& output) {
  Guard(output);
  position_.epoch_loss += output.loss;
  epoch_staleness_ += output.staleness;
  ++epoch_staleness_steps_;
  position_.log_loss += output.loss;
}

void Worker::Guard(const parallel::StepOutput& output) {
  const std::string found = FindDivergence(output);
  if (found.empty()) return;
  if (comm_.world_size() == 1) throw Diverged(found);
  position_.running_loss = -1;
  if (strategy_->LeaveOut()) {
    log::Warn("worker {}, step {}: {}; left out until the next exchange", comm_.rank(), position_.step, found);
  } else if (divergence_.empty()) {
    divergence_ = found;
  }
}

// What is wrong with a step, or nothing.
std::string Worker::FindDivergence(const parallel::StepOutput& output) {
  const double loss = output.loss.loss();
  if (!std::isfinite(loss)) return "the loss of a minibatch is not finite";
  if (output.report.max_change_scale == 0) return "a step would have been infinite";
  if (output.loss.weight_sum == 0) return "";
  double& running = position_.running_loss;
  running = running < 0 ? loss : kRunningLossDecay * running + (1 - kRunningLossDecay) * loss;
  const double limit = options_.guard.explosion_factor * std::log(std::max(2, network_.out_dim()));
  if (running <= limit) return "";
  return fmt::format("the running loss {:.2f} exceeds {:.2f}, {} times that of a uniform guess", running, limit,
                     options_.guard.explosion_factor);
}

void Worker::AverageStep() {
  if (options_.average.share <= 0 || Progress() < 1 - options_.average.share) return;
  if (position_.step % options_.average.every_steps != 0) return;
  const std::span<const float> values = network_.values();
  if (average_.empty()) average_.assign(values.size(), 0.0f);
  const auto weight = static_cast<float>(1.0 / static_cast<double>(++position_.averaged));
  float* mean = average_.data();
  const float* now = values.data();
  const auto size = static_cast<int64_t>(values.size());
  ParallelRanges(size, 1, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) mean[i] += weight * (now[i] - mean[i]);
  });
}

void Worker::NextEpoch(bool stop) {
  ++position_.epoch;
  position_.step_in_epoch = 0;
  position_.minibatch_in_epoch = 0;
  position_.epoch_frames = 0;
  position_.epoch_loss = {};
  position_.fallbacks = 0;
  position_.finished = stop;
}

std::string Worker::CancelledMessage() const {
  return CancelledMessage(fmt::format("in epoch {} after {} steps", position_.epoch + 1, position_.step));
}

std::string Worker::CancelledMessage(const std::string& where) const {
  return fmt::format("stopped on request {}; {}", where,
                     task_.resume_hint.empty() ? "started again, this training begins anew"
                                               : "everything is saved. To go on: " + task_.resume_hint);
}

}  // namespace antiphon::train
