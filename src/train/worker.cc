#include "train/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/cancel.h"
#include "base/log.h"
#include "base/random.h"

namespace antiphon::train {
namespace {

// Independent streams from the run's seed.
constexpr uint64_t kNetworkSeed = 1;
constexpr uint64_t kDataSeed = 2;
constexpr uint64_t kMaskSeed = 3;
constexpr uint64_t kHeldOutSeed = 4;

constexpr double kRunningLossDecay = 0.95;
// With several ranks, whether somebody asked to stop is agreed on every so many steps.
constexpr int64_t kStopAgreementSteps = 16;

}  // namespace

Worker::Worker(const TrainingTask& task, const TrainOptions& options, comm::Communicator& comm)
    : task_(task),
      options_(options),
      comm_(comm),
      dropout_(options.dropout_schedule),
      checkpoints_(CheckpointPath(task.folder), comm.rank(), comm.world_size(), options.checkpoint.keep),
      schedule_(options.schedule) {
  if (options.average.share > 0 && options.schedule.type == "newbob") {
    throw UsageError(
        "average.share needs a run whose length is known, but schedule.type 'newbob' stops when it likes: "
        "leave one of the two out");
  }
  SplitData();
  data::MinibatchOptions data_options = options.data;
  pool_ = std::make_shared<const data::MinibatchPool>(task.store, data_options, MixSeed(task.seed, kDataSeed),
                                                      comm.world_size(), train_utterances_);
  if (pool_->num_frames() < int64_t{options.data.minibatch} * comm.world_size()) {
    Throw<UsageError>("{} training frames are fewer than {} worker(s) × minibatch {}: take a smaller data.minibatch",
                      pool_->num_frames(), comm.world_size(), options.data.minibatch);
  }
  if (task.hmm) phones_.emplace(*task.hmm);
  BuildNetwork();
  BuildLearner();
}

void Worker::SplitData() {
  held_out_store_ = task_.held_out_store ? task_.held_out_store : task_.store;
  if (task_.hmm && task_.hmm->num_pdfs() != task_.store->num_pdfs()) {
    Throw<InputError>("the store '{}' has {} pdf-ids, but the HMM has {}: they do not belong together",
                      task_.store->folder().string(), task_.store->num_pdfs(), task_.hmm->num_pdfs());
  }
  if (task_.held_out_store) {
    if (held_out_store_->feat_dim() != task_.store->feat_dim() ||
        held_out_store_->num_pdfs() > task_.store->num_pdfs()) {
      Throw<InputError>("the held-out store '{}' has {} features and {} pdf-ids, the training store {} and {}",
                        held_out_store_->folder().string(), held_out_store_->feat_dim(), held_out_store_->num_pdfs(),
                        task_.store->feat_dim(), task_.store->num_pdfs());
    }
    return;
  }
  DataSplit split = SplitHeldOut(*task_.store, options_.held_out.fraction, MixSeed(task_.seed, kHeldOutSeed),
                                 options_.held_out.by == "speaker");
  train_utterances_ = std::move(split.train);
  held_out_utterances_ = std::move(split.held_out);
  held_out_by_speaker_ = split.by_speaker;
}

void Worker::BuildNetwork() {
  const int in_dim = pool_->spliced_dim();
  const int out_dim = task_.store->num_pdfs();
  const uint64_t seed = MixSeed(task_.seed, kNetworkSeed);
  network_ = nn::Network(task_.network, in_dim, out_dim, seed);
  if (options_.normalize_input && network_.layer_type(0) != "normalize") {
    const std::string toml = "[[layer]]\ntype = \"normalize\"\nname = \"input\"\n" + network_.ToToml();
    network_ = nn::Network(Config::Parse(toml, task_.network.Where()), in_dim, out_dim, seed);
  }
}

void Worker::BuildLearner() {
  optimizer_ = optim::MakeOptimizer(task_.optimizer, network_);
  strategy_ = parallel::MakeStrategy(task_.parallel, {&network_, optimizer_.get(), &comm_});
}

double Worker::Progress() const {
  const auto steps = static_cast<double>(std::max<int64_t>(1, pool_->steps_per_epoch(position_.epoch)));
  const double epochs = static_cast<double>(position_.epoch) + static_cast<double>(position_.step_in_epoch) / steps;
  return std::min(1.0, epochs / options_.schedule.epochs);
}

void Worker::RunEpoch() {
  data::MinibatchStream stream(pool_, comm_.rank(), position_.epoch, position_.step_in_epoch);
  const int64_t frames = pool_->num_frames() / comm_.world_size();
  report::Progress progress(fmt::format("epoch {} of {}", position_.epoch + 1, options_.schedule.epochs), frames,
                            "frames",
                            comm_.rank() == 0 ? report::ProgressSink::Default() : report::ProgressSink::Silent());
  progress.StartAt(position_.epoch_frames);
  for (;;) {
    data::Minibatch* minibatch = nullptr;
    {
      const Timed timed(position_.data_seconds);
      minibatch = stream.Next();
    }
    if (minibatch == nullptr) break;
    Step(*minibatch);
    const Timed timed(position_.other_seconds);
    progress.Update(position_.epoch_frames, [this] { return Note(); });
    bool stop = CancelRequested();
    if (comm_.world_size() > 1) {
      double asked = stop ? 1 : 0;
      stop = false;
      if (position_.step % kStopAgreementSteps == 0) {
        comm_.AllReduce(std::span<double>(&asked, 1));
        stop = asked > 0;
      }
    }
    if (stop || CheckpointDue()) WriteCheckpoint();
    if (stop) throw Cancelled(CancelledMessage());
  }
  progress.Finish(Note());
}

void Worker::Step(const data::Minibatch& minibatch) {
  parallel::StepInput input;
  input.context.precision = ParsePrecision(options_.precision);
  input.context.training = true;
  input.context.seed = MixSeed(task_.seed, kMaskSeed);
  input.context.step = position_.step * comm_.world_size() + comm_.rank();
  input.context.dropout_factor = dropout_.Factor(Progress());
  input.features = minibatch.features;
  input.targets.pdf_ids = minibatch.pdf_ids;
  input.targets.frame_weights = minibatch.weights;
  input.learning_rate = LearningRate();
  comm_.SetStep(position_.step);
  double seconds = 0;
  parallel::StepOutput output;
  {
    const Timed timed(seconds);
    output = strategy_->Step(input);
  }
  const Timed timed(position_.other_seconds);
  position_.communication_seconds += output.communication_seconds;
  position_.arithmetic_seconds += seconds - output.communication_seconds;
  Guard(output);
  position_.epoch_loss += output.loss;
  position_.log_loss += output.loss;
  const auto frames = static_cast<int64_t>(minibatch.pdf_ids.size());
  position_.frames += frames;
  position_.epoch_frames += frames;
  ++position_.step;
  ++position_.step_in_epoch;
  log_frames_ += frames;
  AverageStep();
  if (position_.step % options_.log_steps == 0) LogSteps(input.learning_rate);
}

void Worker::Guard(const parallel::StepOutput& output) {
  const double loss = output.loss.loss();
  if (!std::isfinite(loss)) throw Diverged("the loss of a minibatch is not finite");
  if (output.report.max_change_scale == 0) throw Diverged("a step would have been infinite");
  if (output.loss.weight_sum == 0) return;
  double& running = position_.running_loss;
  running = running < 0 ? loss : kRunningLossDecay * running + (1 - kRunningLossDecay) * loss;
  const double limit = options_.guard.explosion_factor * std::log(std::max(2, network_.out_dim()));
  if (running > limit) {
    throw Diverged(fmt::format("the running loss {:.2f} exceeds {:.2f}, {} times that of a uniform guess", running,
                               limit, options_.guard.explosion_factor));
  }
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
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < size; ++i) mean[i] += weight * (now[i] - mean[i]);
}

void Worker::NextEpoch(bool stop) {
  ++position_.epoch;
  position_.step_in_epoch = 0;
  position_.epoch_frames = 0;
  position_.epoch_loss = {};
  position_.fallbacks = 0;
  position_.finished = stop;
}

EvaluationResult Worker::EvaluateHeldOut(bool final) {
  const Timed timed(position_.other_seconds);
  EvaluationData data;
  data.store = held_out_store_;
  data.utterances = final ? held_out_utterances_
                          : LimitFrames(*held_out_store_, held_out_utterances_, options_.held_out.most_frames,
                                        MixSeed(task_.seed, kHeldOutSeed));
  data.context = {options_.data.left_context, options_.data.right_context};
  EvaluationRequest request;
  request.precision = ParsePrecision(options_.precision);
  if (final && phones_) request.phones = &*phones_;
  // All ranks hold the same model here, so rank 0's answer is everybody's; the others need not compute it.
  EvaluationResult result;
  if (comm_.rank() == 0) result = Evaluate(network_, data, workspace_, request);
  double sums[] = {result.loss.loss_sum, result.loss.weight_sum, result.loss.correct_sum};
  comm_.Broadcast(0, std::as_writable_bytes(std::span(sums)));
  result.loss = {sums[0], sums[1], sums[2]};
  return result;
}

void Worker::RefreshStatistics() {
  if (!network_.has_statistics()) return;
  constexpr int64_t kFrames = 200000;
  data::MinibatchStream stream(pool_, comm_.rank(), position_.epoch);
  nn::ExecContext context;
  context.precision = ParsePrecision(options_.precision);
  int64_t frames = 0;
  network_.RecomputeStatistics(
      context,
      [&]() -> ConstMatrixView {
        const data::Minibatch* minibatch = frames < kFrames ? stream.Next() : nullptr;
        if (minibatch == nullptr) return {};
        frames += minibatch->features.rows();
        return minibatch->features;
      },
      workspace_);
}

std::string Worker::CancelledMessage() const {
  return fmt::format("stopped on request in epoch {} after {} steps; everything is saved{}", position_.epoch + 1,
                     position_.step,
                     task_.resume_hint.empty() ? std::string() : fmt::format(". To go on: {}", task_.resume_hint));
}

}  // namespace antiphon::train
