#include "train/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <span>
#include <utility>

#include "base/compute_threads.h"
#include "base/log.h"
#include "parallel/strategy_traits.h"
#include "train/timed.h"

namespace antiphon::train {
namespace {

constexpr int64_t kRoughFrames = 50000;  // for batch statistics between epochs

std::string DescribeHeldOut(const RunData& data) {
  const std::vector<size_t>& utterances = data.held_out_utterances;
  if (utterances.empty()) return "a store of its own";
  const data::FrameStore& store = *data.held_out_store;
  if (store.speakers().size() == 1) return fmt::format("{} utterances (one speaker only!)", utterances.size());
  std::set<int32_t> speakers;
  for (const size_t u : utterances) speakers.insert(store.utterances()[u].speaker);
  return fmt::format("{} utterances of {} speaker(s), by {}", utterances.size(), speakers.size(),
                     data.held_out_by_speaker ? "speaker" : "utterance");
}

}  // namespace

void Worker::StartAnew() {
  run_.replica.NormalizeInput(run_.data);
  saver_.checkpoints().Clear();
  if (run_.comm.rank() == 0) {
    RemoveRequest(run_.task.folder);
    for (const char* stale : {"model.safetensors", "confusion.json", "report.html"}) {
      std::error_code ignored;
      std::filesystem::remove(run_.task.folder / stale, ignored);
    }
  }
  run_.comm.Barrier();
  run_.state.position = {};
  run_.state.OpenLog();
}

// Data on a lost machine's own disk cannot be learned by others.
void Worker::GoOnWithoutLost(std::function<void()> take_over) {
  parallel::SurvivesLosses* const survival = strategy().survival();
  if (survival == nullptr || !survival->survives_losses()) return;
  if (run_.data.distribution != Distribution::kPool || run_.comm.world_size() == 1) return;
  take_over_ = std::move(take_over);
  is_first_ = run_.comm.rank() == 0;
  run_.comm.GoOn([this](const parallel::Loss& loss) { TakeLoss(loss); });
  run_.counts.Meet(position());
}

void Worker::TakeLoss(const parallel::Loss& loss) {
  parallel::SurvivesLosses& survival = *strategy().survival();
  int64_t given_back = survival.AfterLoss(loss);
  WorkerCounts::Count theirs = run_.counts.Lose(loss.ranks);
  if (strategy().rounds() == nullptr && !position().finished) {
    const std::vector<data::MinibatchId> back = run_.order.GiveBack(loss.ranks, survival.steps_at_risk());
    for (const data::MinibatchId& m : back) theirs.frames -= run_.FramesOf(m);
    given_back = std::ssize(back);
  }
  if (run_.comm.rank() == 0) run_.state.Inherit(theirs);
  if (run_.comm.rank() == 0 && !std::exchange(is_first_, true)) {
    take_over_();
    log().TakeOver(run_.state.position);
  }
  saver_.NoteLoss();
  run_.state.position.lost_workers += std::ssize(loss.ranks);
  run_.state.position.given_back += given_back;
  log().Loss(position(), loss.first_ranks, run_.comm.world_size(), given_back);
}

void Worker::RunEpoch() {
  if (strategy().rounds() != nullptr) {
    // A server that does nothing else may have averages of the warm start, when it learned, too. They would stay as
    // they are, and count as much as the workers' when another number of ranks goes on.
    if (!TakesMinibatches()) run_.kept.ForgetAverages(run_.state.position);
    round_loop_.RunEpoch();
  } else {
    step_loop_.RunEpoch();
  }
}

void Worker::EndSteps() {
  run_.guard.AgreeOnDivergence();
  const double begin = run_.comm.Now();
  strategy().AfterEpoch();
  const double exchanged = strategy().TakeCommunication();
  run_.state.position.communication_seconds += exchanged;
  run_.state.position.arithmetic_seconds += run_.comm.Now() - begin - exchanged;
  // No mean of models has its workers' statistics, and those of masked minibatches are not those of whole ones; a rough
  // idea will do until the end.
  const int64_t few = std::max(run_.pool().num_frames() / 20, int64_t{8} * run_.options.data.minibatch);
  RefreshStatistics(run_.comm.world_size() > 1 ? kRoughFrames : std::min(kRoughFrames, few));
}

EvaluationResult Worker::EvaluateHeldOut(bool final) {
  const Timed timed(run_.state.position.other_seconds);
  return evaluation_.HeldOut(final);
}

void Worker::RefreshStatistics(int64_t frames_of_all) {
  evaluation_.RefreshStatistics(position().epoch, frames_of_all);
}

void Worker::RestoreBest() {
  network().CopyFrom(run_.kept.best());
  run_.replica.optimizer().ResetState();
  strategy().ResetState();
}

// Servers that do nothing else average no models.
bool Worker::TakesMinibatches() const {
  const parallel::DataShare share = run_.replica.strategy().data_share();
  return share.index < share.count;
}

size_t Worker::CountAverages() const {
  // How many ranks have the k-th average; behind them, how many take minibatches: an average counts if as many have it.
  std::vector<double> have(static_cast<size_t>(run_.options.average.halvings) + 2);
  if (TakesMinibatches()) {
    std::fill_n(have.begin(), position().averaged.size(), 1.0);
    have.back() = 1;
  }
  if (run_.comm.world_size() > 1) have = SumOfAll(run_.comm, have);
  return static_cast<size_t>(std::count(have.begin(), have.end() - 1, have.back()));
}

// Replicas may have averaged different models: the mean of those that averaged any counts.
void Worker::SwapInAverage(size_t k) {
  const std::span<float> values = network().values();
  std::vector<float> mean(values.size() + 1, 0.0f);  // behind the values, the share of replicas that it is made of
  if (TakesMinibatches()) {
    std::ranges::copy(run_.kept.averages()[k], mean.begin());
    mean.back() = 1;
  }
  strategy().MeanOverReplicas(mean);
  for (size_t i = 0; i < values.size(); ++i) values[i] = mean[i] / mean.back();
  network().MarkChanged();
}

void Worker::StopIfAsked() {
  if (position().finished) return;
  const RunRequests::Asked asked = AskedOfAny(run_.comm, saver_.requests().Look(true));
  if (asked.any()) saver_.Stop(asked.workers);
}

std::vector<std::string> Worker::DescribePlan() const {
  const double rate = run_.options.schedule.learning_rate;
  const int minibatch = run_.options.data.minibatch;
  const nn::Network& network = run_.replica.network();
  std::vector<std::string> lines = {
      fmt::format("network: {} inputs, {} layers, {} outputs, {} parameters", network.in_dim(), network.num_layers(),
                  network.out_dim(), run_.replica.outline().num_whole_parameters()),
      fmt::format("arithmetic: {} on {} thread(s), products by {}",
                  PrecisionName(ParsePrecision(run_.options.precision)), ComputeThreads(), GemmBackend()),
      fmt::format("data: {} training frames, {} steps of {} frames per epoch; held out: {}", run_.pool().num_frames(),
                  run_.pool().steps_per_epoch(0), minibatch, DescribeHeldOut(run_.data)),
      fmt::format(
          "learning rate: {:.4g} per frame-averaged gradient ({:.4g} per summed frame at this minibatch), schedule {}",
          rate, rate / minibatch, NameOf(run_.options.schedule.type, optim::kScheduleTypes))};
  for (std::string& line : run_.replica.strategy().Describe()) lines.push_back(std::move(line));
  const parallel::StrategyTraits method = parallel::TraitsOf(run_.task.parallel);
  if (run_.comm.rank() == 0 && run_.comm.world_size() > 1 && run_.data.distribution != Distribution::kShards &&
      !method.of_own_data.empty()) {
    log::Warn(
        "method '{}' with data.distribution '{}': {} belongs to data that it has no more in the next epoch. 'shards' "
        "lets each keep its own; it needs a held-out store and a shard for every worker (antiphon store --shard-mib)",
        parallel::MethodOf(run_.task.parallel), NameOf(run_.options.data.distribution, data::kDistributions),
        method.of_own_data);
  }
  const SideSpeech* const side = run_.replica.side();
  if (side != nullptr) lines.push_back(side->Describe());
  if (side != nullptr && run_.comm.rank() == 0 && side->unlabelled() > 0) {
    log::Warn("side task: {} utterances have no label in '{}' and count for nothing", side->unlabelled(),
              run_.options.side.labels);
  }
  return lines;
}

}  // namespace antiphon::train
