// The part of Worker that trains: the steps of an epoch, of workers in step or on shares of their own.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "comm/fault_injection.h"
#include "report/progress.h"
#include "train/random_streams.h"
#include "train/worker.h"

namespace antiphon::train {
namespace {

constexpr int64_t kRoughFrames = 50000;  // for batch statistics between epochs

}  // namespace

double Worker::Progress() const {
  const Position& at = position();
  const bool common = data_.distribution == Distribution::kPool;
  const int64_t done = common ? at.minibatch_in_epoch : at.step_in_epoch;
  const int64_t all = common ? pool().num_minibatches(at.epoch) : pool().steps_per_epoch(at.epoch);
  const double share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, all));
  return std::min(1.0, (static_cast<double>(at.epoch) + share) / options_.schedule.epochs);
}

// What is left of the epoch for this rank.
std::unique_ptr<data::MinibatchStream> Worker::OpenStream() {
  const parallel::DataShare share = strategy().data_share();
  const Position& at = position();
  active_workers_ = share.count;
  if (data_.distribution != Distribution::kPool) {
    return std::make_unique<data::MinibatchStream>(data_.pool, comm_.rank() / share.readers, at.epoch,
                                                   at.step_in_epoch);
  }
  const data::Stripe stripe{at.epoch, at.minibatch_in_epoch, share.index, share.count, order_.returned()};
  return std::make_unique<data::MinibatchStream>(data_.pool, stripe);
}

std::string Worker::EpochTitle() const {
  return fmt::format("epoch {} of {}", position().epoch + 1, options_.schedule.epochs);
}

report::ProgressSink Worker::Sink() const {
  return comm_.rank() == 0 ? report::ProgressSink::Default() : report::ProgressSink::Silent();
}

void Worker::RunEpoch() {
  if (strategy().rounds() != nullptr) return RunRounds();
  std::unique_ptr<data::MinibatchStream> stream = OpenStream();
  report::Progress progress(EpochTitle(), pool().num_frames() / active_workers_, "frames", Sink());
  progress.StartAt(position().epoch_frames);
  for (;;) {
    data::Minibatch* minibatch = nullptr;
    {
      double hidden = 0;  // simulated devices have their data at hand
      const Timed timed(comm_.time_is_virtual() ? hidden : state_.position.data_seconds);
      if (active_workers_ != strategy().data_share().count) stream = OpenStream();
      minibatch = stream->Next();
    }
    if (minibatch == nullptr) break;
    const parallel::DataShare share = strategy().data_share();
    Step(*minibatch, position().step * (comm_.world_size() / share.readers) + share.index);
    const Timed timed(state_.position.other_seconds);
    progress.Update(position().epoch_frames, [this] { return state_.Note(); });
    const bool stop = ReachAgreement();
    if (stop) Stop();
    if (after_loss_) {
      WriteCheckpoint();
      stream = OpenStream();
    }
  }
  if (comm_.world_size() > 1 && !strategy().synchronous() && WaitForEndOfEpoch()) Stop();
  for (const parallel::StepOutput& output : strategy().Drain()) Account(output);
  progress.Finish(state_.Note());
}

// Between two steps: falls back, saves or stops if one of the ranks has to. True: stop; everything is saved.
bool Worker::ReachAgreement() {
  const bool in_step = comm_.world_size() == 1 || strategy().synchronous();
  const Rendezvous::Decision decision =
      in_step ? rendezvous_.InStep(position().step, guard_.found()) : rendezvous_.AtMeeting(position().step);
  if (decision.diverged) guard_.AgreeOnDivergence();
  if (decision.stop || decision.save) WriteCheckpoint();
  return decision.stop;
}

// True: stop; everything is saved.
bool Worker::WaitForEndOfEpoch() {
  while (const auto decision = rendezvous_.AtEndOfEpoch(position().step)) {
    if (decision->stop || decision->save) WriteCheckpoint();
    if (decision->stop) return true;
  }
  return false;
}

void Worker::EndSteps() {
  guard_.AgreeOnDivergence();
  const double begin = comm_.Now();
  strategy().AfterEpoch();
  const double exchanged = strategy().TakeCommunication();
  state_.position.communication_seconds += exchanged;
  state_.position.arithmetic_seconds += comm_.Now() - begin - exchanged;
  // No mean of models has its workers' statistics, and those of masked minibatches are not those of whole ones; a rough
  // idea will do until the end.
  const int64_t few = std::max(pool().num_frames() / 20, int64_t{8} * options_.data.minibatch);
  RefreshStatistics(comm_.world_size() > 1 ? kRoughFrames : std::min(kRoughFrames, few));
}

void Worker::Step(const data::Minibatch& minibatch, int64_t mask_step, int64_t index) {
  Position& at = state_.position;
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
  comm_.SetStep(at.step);
  comm::FaultPoint("step", comm_.rank(), at.step);
  if (index < 0) at.minibatch_in_epoch = TakeInStep();
  // By the communicator's clock, which is virtual on simulated clusters.
  const double begin = comm_.Now();
  input.targets = targets().Make(minibatch);
  nn::SideTargets* const branches = targets().side_targets();
  input.context.side_targets = branches;
  if (replica_.side() != nullptr) replica_.side()->Join(minibatch, mask_step, input);
  const parallel::StepOutput output = strategy().Step(input);
  if (branches != nullptr) state_.AddBranch(std::exchange(branches->tasks.front().seen, {}));
  network().AfterStep(at.step);
  const double seconds = comm_.Now() - begin;
  const Timed timed(at.other_seconds);
  at.communication_seconds += output.communication_seconds;
  at.arithmetic_seconds += seconds - output.communication_seconds;
  Account(output);
  // Of the speech, also where only every third has an output.
  state_.AddFrames(minibatch.num_frames * outline().time_context().stride);
  ++at.step;
  ++at.step_in_epoch;
  if (index >= 0) at.minibatch_in_epoch = index + 1;
  parallel::SurvivesLosses* const survival = strategy().survival();
  order_.Settle(survival != nullptr ? survival->steps_at_risk() : 0);
  kept_.AverageStep(network(), Progress(), at);
  if (at.step % options_.log_steps == 0) {
    state_.LogSteps({Progress(), input.learning_rate, dropout_.Factor(Progress())}, strategy(), replica_.side());
  }
}

void Worker::Account(const parallel::StepOutput& output) {
  guard_.Look(output, network().out_dim(), strategy(), state_.position);
  state_.Add(output);
}

// Data on a lost machine's own disk cannot be learned by others.
void Worker::GoOnWithoutLost() {
  parallel::SurvivesLosses* const survival = strategy().survival();
  if (survival == nullptr || !survival->survives_losses()) return;
  if (data_.distribution != Distribution::kPool || comm_.world_size() == 1) return;
  comm_.GoOn([this](const parallel::Loss& loss) { TakeLoss(loss); });
}

// Where the common order goes on behind the step that all workers take now.
int64_t Worker::TakeInStep() {
  const Position& at = position();
  if (data_.distribution != Distribution::kPool) return at.minibatch_in_epoch + active_workers_;
  return order_.Take(at.epoch, at.minibatch_in_epoch, pool().num_minibatches(at.epoch), active_workers_);
}

void Worker::TakeLoss(const parallel::Loss& loss) {
  parallel::SurvivesLosses& survival = *strategy().survival();
  int64_t given_back = survival.AfterLoss(loss);
  if (strategy().rounds() == nullptr && !position().finished) {
    given_back = order_.GiveBack(loss.ranks, survival.steps_at_risk());
  }
  checkpoints_.Renumber();
  state_.position.lost_workers += std::ssize(loss.ranks);
  state_.position.given_back += given_back;
  after_loss_ = true;
  log().Loss(position(), loss.first_ranks, comm_.world_size(), given_back);
}

}  // namespace antiphon::train
