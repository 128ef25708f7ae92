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
#include "train/data_share.h"

namespace antiphon::train {
namespace {

// Independent streams from the run's seed.
constexpr uint64_t kNetworkSeed = 1;
constexpr uint64_t kDataSeed = 2;
constexpr uint64_t kMaskSeed = 3;
constexpr uint64_t kHeldOutSeed = 4;

constexpr double kRunningLossDecay = 0.95;
// With several ranks, every so many steps they agree on whether to stop, to save or to fall back.
constexpr int64_t kAgreementSteps = 16;

}  // namespace

Worker::Worker(const TrainingTask& task, const TrainOptions& options, parallel::SurvivingCommunicator& comm)
    : task_(task),
      options_(options),
      comm_(comm),
      dropout_(options.dropout_schedule),
      checkpoints_(CheckpointPath(task.folder), comm.rank(), comm.world_size(), options.checkpoint.keep),
      pretraining_(CheckpointPath(task.folder) / "pretraining", comm.rank(), comm.world_size(),
                   options.checkpoint.keep),
      schedule_(options.schedule) {
  if (options.average.share > 0 && options.schedule.type == "newbob") {
    throw UsageError(
        "average.share needs a run whose length is known, but schedule.type 'newbob' stops when it likes: "
        "leave one of the two out");
  }
  if (task.initial && options.pretrain.method != "none") {
    throw UsageError("pretrain.method grows a new network: leave it out when an initial model goes on learning");
  }
  SplitData();
  data::MinibatchOptions data_options = options.data;
  pool_ = std::make_shared<const data::MinibatchPool>(task.store, data_options, MixSeed(task.seed, kDataSeed),
                                                      comm.world_size(), train_utterances_);
  RequireShards(comm, *task.store, *pool_);
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
  if (options_.data.distribution == "shards") {
    throw UsageError(
        "data.distribution 'shards' needs --held-out-store, as no worker can read speakers held out of all shards");
  }
  DataSplit split = SplitForRun(*task_.store, options_.held_out, task_.seed);
  train_utterances_ = std::move(split.train);
  held_out_utterances_ = std::move(split.held_out);
  held_out_by_speaker_ = split.by_speaker;
}

void Worker::BuildNetwork() {
  const int in_dim = pool_->spliced_dim();
  const int out_dim = task_.store->num_pdfs() * options_.frames_per_forward;
  if (task_.initial) {
    network_ = task_.initial->network.Clone();
    if (network_.in_dim() == in_dim && network_.out_dim() == out_dim) return;
    Throw<InputError>("the initial model takes {} values and has {} outputs, the task needs {} and {}",
                      network_.in_dim(), network_.out_dim(), in_dim, out_dim);
  }
  const uint64_t seed = MixSeed(task_.seed, kNetworkSeed);
  network_ = nn::Network(task_.network, in_dim, out_dim, seed);
  if (options_.normalize_input && network_.layer_type(0) != "normalize") {
    const std::string toml = "[[layer]]\ntype = \"normalize\"\nname = \"input\"\n" + network_.ToToml();
    network_ = nn::Network(Config::Parse(toml, task_.network.Where()), in_dim, out_dim, seed);
  }
}

void Worker::BuildLearner() {
  optimizer_ = optim::MakeOptimizer(task_.optimizer, network_);
  strategy_ = parallel::MakeStrategy(task_.parallel,
                                     {&network_,
                                      optimizer_.get(),
                                      &comm_,
                                      {options_.data.minibatch, pool_->steps_per_epoch(0), options_.schedule.epochs},
                                      task_.optimizer});
  targets_ = std::make_unique<TargetMaker>(
      task_.store, Heads{options_.frames_per_forward, options_.first_frame_offset}, task_.teachers, options_.teacher,
      data::Context{options_.data.left_context, options_.data.right_context}, ParsePrecision(options_.precision));
}

double Worker::Progress() const {
  const bool common = options_.data.distribution == "pool";
  const int64_t done = common ? position_.minibatch_in_epoch : position_.step_in_epoch;
  const int64_t all = common ? pool_->num_minibatches(position_.epoch) : pool_->steps_per_epoch(position_.epoch);
  const double share = static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, all));
  return std::min(1.0, (static_cast<double>(position_.epoch) + share) / options_.schedule.epochs);
}

// What is left of the epoch for this rank.
std::unique_ptr<data::MinibatchStream> Worker::OpenStream() const {
  const parallel::DataShare share = strategy_->data_share();
  if (options_.data.distribution != "pool") {
    if (share.readers > 1) throw UsageError("data.distribution must be 'pool' where ranks hold one replica together");
    return std::make_unique<data::MinibatchStream>(pool_, comm_.rank(), position_.epoch, position_.step_in_epoch);
  }
  const data::Stripe stripe{position_.epoch, position_.minibatch_in_epoch, share.index, share.count, order_.returned()};
  return std::make_unique<data::MinibatchStream>(pool_, stripe);
}

void Worker::RunEpoch() {
  if (strategy_->takes_when_free()) return RunRounds();
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
    if (stop) throw Cancelled(CancelledMessage());
    if (after_loss_) {
      WriteCheckpoint();
      stream = OpenStream();
      active_workers_ = strategy_->data_share().count;
    }
  }
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
  if (!strategy_->synchronous()) return false;
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
  if (SumOfAll({CancelRequested() ? 1.0 : 0.0})[0] > 0) throw Cancelled(CancelledMessage());
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
  strategy_->AfterEpoch();
  // No mean of models has its workers' statistics; a rough idea will do until the end.
  if (comm_.world_size() > 1) RefreshStatistics(50000);
}

void Worker::Step(const data::Minibatch& minibatch, int64_t mask_step, int64_t index) {
  parallel::StepInput input;
  input.context.precision = ParsePrecision(options_.precision);
  input.context.training = true;
  input.context.seed = MixSeed(task_.seed, kMaskSeed);
  input.context.step = mask_step;
  input.context.dropout_factor = dropout_.Factor(Progress());
  input.features = minibatch.features;
  input.learning_rate = LearningRate();
  input.minibatch = index;
  comm_.SetStep(position_.step);
  comm::FaultPoint("step", comm_.rank(), position_.step);
  if (index < 0) position_.minibatch_in_epoch = TakeInStep();
  // By the communicator's clock, which is virtual on simulated clusters.
  const double begin = comm_.Now();
  input.targets = targets_->Make(minibatch);
  const parallel::StepOutput output = strategy_->Step(input);
  const double seconds = comm_.Now() - begin;
  const Timed timed(position_.other_seconds);
  position_.communication_seconds += output.communication_seconds;
  position_.arithmetic_seconds += seconds - output.communication_seconds;
  Account(output);
  const auto frames = static_cast<int64_t>(minibatch.pdf_ids.size());
  position_.frames += frames;
  position_.epoch_frames += frames;
  ++position_.step;
  ++position_.step_in_epoch;
  if (index >= 0) position_.minibatch_in_epoch = index + 1;
  order_.Settle(strategy_->steps_at_risk());
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
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < size; ++i) mean[i] += weight * (now[i] - mean[i]);
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

EvaluationResult Worker::EvaluateHeldOut(bool final) {
  const Timed timed(position_.other_seconds);
  EvaluationData data;
  data.store = held_out_store_;
  data.utterances = final ? held_out_utterances_
                          : LimitFrames(*held_out_store_, held_out_utterances_, options_.held_out.most_frames,
                                        MixSeed(task_.seed, kHeldOutSeed));
  data.context = {options_.data.left_context, options_.data.right_context};
  data.heads = {options_.frames_per_forward, options_.first_frame_offset};
  EvaluationRequest request;
  request.precision = ParsePrecision(options_.precision);
  if (final && phones_) request.phones = &*phones_;
  if (comm_.world_size() == 1) return Evaluate(network_, data, workspace_, request);
  EvaluationResult result;
  comm_.Together([&] { result = EvaluateTogether(data, request); });
  return result;
}

// All ranks hold the same model here; each evaluates its part of the utterances.
EvaluationResult Worker::EvaluateTogether(EvaluationData data, const EvaluationRequest& request) {
  if (data.utterances.empty()) {
    data.utterances.resize(data.store->utterances().size());
    std::iota(data.utterances.begin(), data.utterances.end(), size_t{0});
  }
  std::vector<size_t> mine;
  for (auto i = static_cast<size_t>(comm_.rank()); i < data.utterances.size();
       i += static_cast<size_t>(comm_.world_size())) {
    mine.push_back(data.utterances[i]);
  }
  data.utterances = std::move(mine);
  EvaluationResult result;
  if (!data.utterances.empty()) result = Evaluate(network_, data, workspace_, request);
  std::vector<double> sums = {result.loss.loss_sum, result.loss.weight_sum, result.loss.correct_sum};
  const size_t phones = request.phones != nullptr ? request.phones->names.size() : 0;
  if (result.confusion.names.empty() && phones > 0) {
    result.confusion = {request.phones->names, std::vector(phones, std::vector<double>(phones, 0.0))};
  }
  for (const std::vector<double>& row : result.confusion.counts) sums.insert(sums.end(), row.begin(), row.end());
  comm_.AllReduce(std::span<double>(sums));
  result.loss = {sums[0], sums[1], sums[2]};
  for (size_t r = 0; r < phones; ++r) {
    const auto row = sums.begin() + static_cast<std::ptrdiff_t>(3 + r * phones);
    std::copy_n(row, phones, result.confusion.counts[r].begin());
  }
  return result;
}

void Worker::RefreshStatistics(int64_t frames_of_all) {
  if (network_.has_statistics()) comm_.Together([&] { RefreshStatisticsTogether(frames_of_all); });
}

void Worker::RefreshStatisticsTogether(int64_t frames_of_all) {
  const int64_t most_frames = frames_of_all / comm_.world_size();
  data::MinibatchStream stream(pool_, comm_.rank(), position_.epoch);
  nn::ExecContext context;
  context.precision = ParsePrecision(options_.precision);
  int64_t frames = 0;
  network_.RecomputeStatistics(
      context,
      [&]() -> ConstMatrixView {
        const data::Minibatch* minibatch = frames < most_frames ? stream.Next() : nullptr;
        if (minibatch == nullptr) return {};
        frames += minibatch->features.rows();
        return minibatch->features;
      },
      workspace_);
  if (comm_.world_size() == 1) return;
  // Statistics are sums: those of all ranks together are the sums of theirs.
  for (size_t i = 0; i < network_.num_layers(); ++i) {
    if (!network_.layer(i).has_statistics()) continue;
    for (nn::Parameter* p : network_.layer(i).buffers()) {
      comm_.AllReduce(std::span(p->value.data(), static_cast<size_t>(p->value.size())));
      p->MarkChanged();
    }
  }
}

std::string Worker::CancelledMessage() const {
  return CancelledMessage(fmt::format("in epoch {} after {} steps", position_.epoch + 1, position_.step));
}

std::string Worker::CancelledMessage(const std::string& where) const {
  return fmt::format("stopped on request {}; everything is saved{}", where,
                     task_.resume_hint.empty() ? std::string() : fmt::format(". To go on: {}", task_.resume_hint));
}

}  // namespace antiphon::train
