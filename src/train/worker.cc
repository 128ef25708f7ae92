#include "train/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/log.h"
#include "parallel/strategy_traits.h"
#include "train/random_streams.h"

namespace antiphon::train {
namespace {

const optim::ScheduleOptions& Checked(const TrainingTask& task, const TrainOptions& options) {
  if (options.average.share > 0 && optim::Schedule(options.schedule).decides()) {
    throw UsageError(
        "average.share needs a run whose length is known, but schedule.type 'newbob' stops when it likes: "
        "leave one of the two out");
  }
  if (task.initial && options.pretrain.method != PretrainMethod::kNone) {
    throw UsageError("pretrain.method grows a new network: leave it out when an initial model goes on learning");
  }
  return options.schedule;
}

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

Worker::Worker(const TrainingTask& task, const TrainOptions& options, parallel::SurvivingCommunicator& comm)
    : task_(task),
      options_(options),
      comm_(comm),
      dropout_(options.dropout_schedule),
      schedule_(Checked(task, options)),
      data_(task, options),
      replica_(task, options, comm, data_.sequence.get()),
      evaluation_(task, options, comm, data_, replica_),
      checkpoints_(CheckpointPath(task.folder), options.checkpoint.keep, comm),
      rendezvous_(options.checkpoint, comm),
      guard_(options.guard, comm),
      kept_(options.average, schedule_.decides()),
      state_(task.folder, comm) {
  data_.KeepThoseThatAreKnown(task);
  std::unique_ptr<parallel::ModelParts> parts = parallel::DivideModel(task.parallel, replica_.outline(), comm);
  if (parts && data_.distribution == Distribution::kShards) {
    throw UsageError("data.distribution must be 'pool' or 'shares' where ranks hold one replica together");
  }
  data_.OpenPool(task, options, replica_.outline(), comm.world_size() / (parts ? parts->ranks() : 1), comm);
  replica_.Build(std::move(parts), data_, schedule_.decides());
  checkpoints_.DrawNumber();
}

EvaluationResult Worker::EvaluateHeldOut(bool final) {
  const Timed timed(state_.position.other_seconds);
  return evaluation_.HeldOut(final);
}

void Worker::RefreshStatistics(int64_t frames_of_all) {
  evaluation_.RefreshStatistics(position().epoch, frames_of_all);
}

void Worker::RestoreBest() {
  network().CopyFrom(kept_.best());
  replica_.optimizer().ResetState();
  strategy().ResetState();
}

size_t Worker::CountAverages() const {
  std::vector<double> have(static_cast<size_t>(options_.average.halvings) + 1);
  std::fill_n(have.begin(), position().averaged.size(), 1.0);
  if (comm_.world_size() > 1) have = SumOfAll(comm_, have);
  return static_cast<size_t>(std::count(have.begin(), have.end(), static_cast<double>(comm_.world_size())));
}

// Replicas may have averaged different models: their mean counts.
void Worker::SwapInAverage(size_t k) {
  const std::span<float> average = kept_.averages()[k];
  strategy().MeanOverReplicas(average);
  std::copy(average.begin(), average.end(), network().values().begin());
  network().MarkChanged();
}

void Worker::StopIfAsked() {
  if (comm_.world_size() == 1 || position().finished) return;
  if (SumOfAll(comm_, {CancelRequested() ? 1.0 : 0.0})[0] > 0) Stop();
}

void Worker::Stop() {
  FinishWriting();
  throw Cancelled(CancelledMessage(fmt::format("in epoch {} after {} steps", position().epoch + 1, position().step)));
}

std::string Worker::CancelledMessage(const std::string& where) const {
  return fmt::format("stopped on request {}; {}", where,
                     task_.resume_hint.empty() ? "started again, this training begins anew"
                                               : "everything is saved. To go on: " + task_.resume_hint);
}

std::vector<std::string> Worker::DescribePlan() const {
  const double rate = options_.schedule.learning_rate;
  const int minibatch = options_.data.minibatch;
  const nn::Network& network = replica_.network();
  std::vector<std::string> lines = {
      fmt::format("network: {} inputs, {} layers, {} outputs, {} parameters", network.in_dim(), network.num_layers(),
                  network.out_dim(), outline().num_whole_parameters()),
      fmt::format("arithmetic: {} on {} thread(s), products by {}", PrecisionName(ParsePrecision(options_.precision)),
                  ComputeThreads(), GemmBackend()),
      fmt::format("data: {} training frames, {} steps of {} frames per epoch; held out: {}", pool().num_frames(),
                  pool().steps_per_epoch(0), minibatch, DescribeHeldOut(data_)),
      fmt::format(
          "learning rate: {:.4g} per frame-averaged gradient ({:.4g} per summed frame at this minibatch), schedule {}",
          rate, rate / minibatch, NameOf(options_.schedule.type, optim::kScheduleTypes))};
  for (std::string& line : replica_.strategy().Describe()) lines.push_back(std::move(line));
  const parallel::StrategyTraits method = parallel::TraitsOf(task_.parallel);
  if (comm_.rank() == 0 && comm_.world_size() > 1 && data_.distribution != Distribution::kShards &&
      !method.of_own_data.empty()) {
    log::Warn(
        "method '{}' with data.distribution '{}': {} belongs to data that it has no more in the next epoch. 'shards' "
        "lets each keep its own; it needs a held-out store and a shard for every worker (antiphon store --shard-mib)",
        parallel::MethodOf(task_.parallel), options_.data.distribution, method.of_own_data);
  }
  const SideSpeech* const side = replica_.side();
  if (side != nullptr) lines.push_back(side->Describe());
  if (side != nullptr && comm_.rank() == 0 && side->unlabelled() > 0) {
    log::Warn("side task: {} utterances have no label in '{}' and count for nothing", side->unlabelled(),
              options_.side.labels);
  }
  return lines;
}

}  // namespace antiphon::train
