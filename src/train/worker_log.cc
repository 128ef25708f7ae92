// The part of Worker that tells how the run goes.
#include <fmt/format.h>

#include <set>
#include <span>

#include "base/compute_threads.h"
#include "base/log.h"
#include "parallel/strategy_traits.h"
#include "train/worker.h"

namespace antiphon::train {
namespace {

double StepSeconds(const Position& p) { return p.arithmetic_seconds + p.data_seconds + p.communication_seconds; }

std::string DescribeHeldOut(const data::FrameStore& store, std::span<const size_t> utterances, bool by_speaker) {
  if (utterances.empty()) return "a store of its own";
  if (store.speakers().size() == 1) return fmt::format("{} utterances (one speaker only!)", utterances.size());
  std::set<int32_t> speakers;
  for (const size_t u : utterances) speakers.insert(store.utterances()[u].speaker);
  return fmt::format("{} utterances of {} speaker(s), by {}", utterances.size(), speakers.size(),
                     by_speaker ? "speaker" : "utterance");
}

}  // namespace

std::string Worker::Note() const {
  const nn::LossResult& loss = position_.log_loss.weight_sum > 0 ? position_.log_loss : position_.epoch_loss;
  return fmt::format("loss {}  acc {:.1f} %", LossText(loss.loss()), 100 * loss.frame_accuracy());
}

// What all ranks together learned and sent. Only where all ranks are at the same step; elsewhere a rank tells its own.
Worker::Totals Worker::Sum(const nn::LossResult& loss, int64_t frames) {
  CountBytes();
  Totals totals{loss, static_cast<double>(frames), static_cast<double>(position_.frames),
                static_cast<double>(position_.bytes_sent)};
  if (comm_.world_size() == 1) return totals;
  std::vector<double> sums =
      SumOfAll({loss.loss_sum, loss.weight_sum, loss.correct_sum, totals.new_frames, totals.frames, totals.bytes_sent});
  // Ranks that hold one replica together all tell of the same frames.
  const double readers = strategy_->data_share().readers;
  for (size_t i = 0; i < 5; ++i) sums[i] /= readers;
  return {{sums[0], sums[1], sums[2]}, sums[3], sums[4], sums[5]};
}

void Worker::CountBytes() {
  position_.bytes_sent += comm_.bytes_sent() - bytes_counted_;
  bytes_counted_ = comm_.bytes_sent();
}

void Worker::LogSteps(double rate) {
  const double seconds = StepSeconds(position_) - log_interval_seconds_;
  const double arithmetic = position_.arithmetic_seconds - log_arithmetic_seconds_;
  Totals totals{position_.log_loss, static_cast<double>(log_frames_), static_cast<double>(position_.frames), 0};
  if (strategy_->synchronous()) totals = Sum(position_.log_loss, log_frames_);
  const nn::LossResult& loss = totals.loss;
  report::MetricsRecord record("step");
  record.Set("epoch", position_.epoch + 1)
      .Set("step", position_.step)
      .Set("frames", static_cast<int64_t>(totals.frames))
      .Set("progress", Progress())
      .Set("train_loss", loss.loss())
      .Set("train_accuracy", loss.frame_accuracy())
      .Set("learning_rate", rate)
      .Set("dropout_factor", dropout_.Factor(Progress()))
      .Set("frames_per_second", seconds > 0 ? totals.new_frames / seconds : 0.0)
      .Set("arithmetic_share", seconds > 0 ? arithmetic / seconds : 1.0);
  // Of this rank alone.
  if (side_) {
    const nn::LossResult seen = side_->TakeSeen();
    record.Set("side_loss", seen.loss()).Set("side_accuracy", seen.frame_accuracy());
    log_->Scalar("accuracy/side", position_.step, seen.frame_accuracy());
  }
  if (const nn::LossResult seen = std::exchange(branch_seen_, {}); seen.weight_sum > 0) {
    record.Set("branch_loss", seen.loss()).Set("branch_accuracy", seen.frame_accuracy());
    log_->Scalar("accuracy/branch", position_.step, seen.frame_accuracy());
  }
  log_->Write(record);
  log_->Scalar("loss/train", position_.step, loss.loss());
  log_->Scalar("accuracy/train", position_.step, loss.frame_accuracy());
  log_->Scalar("learning_rate", position_.step, rate);
  if (seconds > 0) log_->Scalar("frames_per_second", position_.step, totals.new_frames / seconds);
  position_.log_loss = {};
  log_frames_ = 0;
  log_interval_seconds_ = StepSeconds(position_);
  log_arithmetic_seconds_ = position_.arithmetic_seconds;
}

void Worker::LogEpoch(const nn::LossResult& held_out, double rate, bool accepted) {
  const Totals totals = Sum(position_.epoch_loss, 0);
  const nn::LossResult& train = totals.loss;
  const double seconds = StepSeconds(position_);
  report::MetricsRecord record("epoch");
  record.Set("epoch", position_.epoch + 1)
      .Set("step", position_.step)
      .Set("frames", static_cast<int64_t>(totals.frames))
      .Set("train_loss", train.loss())
      .Set("train_accuracy", train.frame_accuracy())
      .Set("held_out_loss", held_out.loss())
      .Set("held_out_accuracy", held_out.frame_accuracy())
      .Set("learning_rate", rate)
      .Set("accepted", accepted)
      .Set("arithmetic_seconds", position_.arithmetic_seconds)
      .Set("data_seconds", position_.data_seconds)
      .Set("communication_seconds", position_.communication_seconds)
      .Set("other_seconds", position_.other_seconds)
      .Set("virtual_seconds", comm_.time_is_virtual() ? comm_.Now() : 0.0)
      .Set("bytes_sent", static_cast<int64_t>(totals.bytes_sent))
      .Set("frames_per_second", seconds > 0 ? totals.frames / seconds : 0.0);
  // Of this rank; in a pipeline, rank 0 misses most.
  if (epoch_staleness_ > 0) record.Set("staleness", epoch_staleness_ / static_cast<double>(epoch_staleness_steps_));
  epoch_staleness_ = 0;
  epoch_staleness_steps_ = 0;
  log_->Write(record);
  log_->Scalar("loss/held_out", position_.step, held_out.loss());
  log_->Scalar("accuracy/held_out", position_.step, held_out.frame_accuracy());
  if (comm_.rank() != 0) return;
  log::Info("epoch {}: train loss {}, accuracy {:.2f} %; held-out loss {}, accuracy {:.2f} %; rate {:.4g}{}",
            position_.epoch + 1, LossText(train.loss()), 100 * train.frame_accuracy(), LossText(held_out.loss()),
            100 * held_out.frame_accuracy(), rate, accepted ? "" : "; no better, back to the best model");
}

void Worker::LogFinish(const TrainingSummary& summary) {
  report::MetricsRecord record("finish");
  record.Set("epochs", summary.epochs)
      .Set("steps", summary.steps)
      .Set("frames", summary.frames)
      .Set("held_out_loss", summary.held_out_loss)
      .Set("held_out_accuracy", summary.held_out_accuracy)
      .Set("phone_accuracy", summary.phone_accuracy)
      .Set("averaged", summary.averaged)
      .Set("seconds", summary.seconds)
      .Set("frames_per_second", summary.frames_per_second)
      .Set("workers", comm_.world_size())
      .Set("lost_workers", summary.lost_workers)
      .Set("minibatches_given_back", summary.given_back)
      .Set("bytes_sent", summary.bytes_sent)
      .Set("communication_seconds", position_.communication_seconds)
      .Set("arithmetic_share", summary.arithmetic_share)
      .Set("virtual_seconds", summary.virtual_seconds)
      .Set("model_hash", fmt::format("{:016x}", summary.model_hash));
  if (summary.side_probe.kinds > 0) {
    record.Set("side_layer", summary.side_layer)
        .Set("side_probe_kinds", summary.side_probe.kinds)
        .Set("side_probe_accuracy", summary.side_probe.accuracy);
  }
  log_->Write(record);
}

TrainingSummary Worker::Summary() {
  const Totals totals = Sum({}, 0);
  TrainingSummary summary;
  summary.epochs = position_.epoch;
  summary.steps = position_.step;
  summary.frames = static_cast<int64_t>(totals.frames);
  summary.bytes_sent = static_cast<int64_t>(totals.bytes_sent);
  const double seconds = StepSeconds(position_);
  summary.seconds = seconds + position_.other_seconds;
  summary.frames_per_second = seconds > 0 ? static_cast<double>(summary.frames) / seconds : 0;
  summary.arithmetic_share = seconds > 0 ? position_.arithmetic_seconds / seconds : 1;
  summary.fallbacks = position_.fallbacks;
  summary.lost_workers = position_.lost_workers;
  summary.given_back = position_.given_back;
  if (comm_.time_is_virtual()) summary.virtual_seconds = comm_.Now();
  return summary;
}

std::vector<std::string> Worker::DescribePlan() const {
  const double rate = options_.schedule.learning_rate;
  const int minibatch = options_.data.minibatch;
  std::vector<std::string> lines = {
      fmt::format("network: {} inputs, {} layers, {} outputs, {} parameters", network_.in_dim(), network_.num_layers(),
                  network_.out_dim(), outline_.num_whole_parameters()),
      fmt::format("arithmetic: {} on {} thread(s), products by {}", PrecisionName(ParsePrecision(options_.precision)),
                  ComputeThreads(), GemmBackend()),
      fmt::format("data: {} training frames, {} steps of {} frames per epoch; held out: {}", pool_->num_frames(),
                  pool_->steps_per_epoch(0), minibatch,
                  DescribeHeldOut(*held_out_store_, held_out_utterances_, held_out_by_speaker_)),
      fmt::format(
          "learning rate: {:.4g} per frame-averaged gradient ({:.4g} per summed frame at this minibatch), schedule {}",
          rate, rate / minibatch, NameOf(options_.schedule.type, optim::kScheduleTypes))};
  for (std::string& line : strategy_->Describe()) lines.push_back(std::move(line));
  const parallel::StrategyTraits method = parallel::TraitsOf(task_.parallel);
  if (comm_.rank() == 0 && comm_.world_size() > 1 && distribution_ != Distribution::kShards &&
      !method.of_own_data.empty()) {
    log::Warn(
        "method '{}' with data.distribution '{}': {} belongs to data that it has no more in the next epoch. 'shards' "
        "lets each keep its own; it needs a held-out store and a shard for every worker (antiphon store --shard-mib)",
        parallel::MethodOf(task_.parallel), options_.data.distribution, method.of_own_data);
  }
  if (side_) lines.push_back(side_->Describe());
  if (side_ && comm_.rank() == 0 && side_->unlabelled() > 0) {
    log::Warn("side task: {} utterances have no label in '{}' and count for nothing", side_->unlabelled(),
              options_.side.labels);
  }
  return lines;
}

}  // namespace antiphon::train
