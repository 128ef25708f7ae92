#include "train/run_state.h"

#include <fmt/format.h>

#include <span>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/loss_text.h"
#include "comm/fault_injection.h"

namespace antiphon::train {
namespace {

double StepSeconds(const Position& p) { return p.arithmetic_seconds + p.data_seconds + p.communication_seconds; }

}  // namespace

void RunState::OpenLog() {
  if (comm_.rank() == 0) {
    log_.Open(position);
  } else {
    log_.Close();
  }
  times_.StartAt(position);
  seconds_then_ = StepSeconds(position);
  arithmetic_seconds_then_ = position.arithmetic_seconds;
}

void RunState::Add(const parallel::StepOutput& output) {
  position.epoch_loss += output.loss;
  staleness_ += output.staleness;
  ++staleness_steps_;
  position.log_loss += output.loss;
}

void RunState::AddFrames(int64_t frames) {
  position.frames += frames;
  position.epoch_frames += frames;
  new_frames_ += frames;
}

void RunState::CountBytes() {
  position.bytes_sent += comm_.bytes_sent() - bytes_counted_;
  bytes_counted_ = comm_.bytes_sent();
}

void RunState::NextEpoch(bool stop) {
  ++position.epoch;
  position.step_in_epoch = 0;
  position.minibatch_in_epoch = 0;
  position.epoch_frames = 0;
  position.epoch_loss = {};
  position.fallbacks = 0;
  position.finished = stop;
}

void RunState::KeepSpent(const Position& failed, int fallbacks) {
  position.metrics_bytes = failed.metrics_bytes;
  position.events_bytes = failed.events_bytes;
  position.arithmetic_seconds = failed.arithmetic_seconds;
  position.data_seconds = failed.data_seconds;
  position.communication_seconds = failed.communication_seconds;
  position.other_seconds = failed.other_seconds;
  position.bytes_sent = failed.bytes_sent;
  position.fallbacks = fallbacks;
  position.running_loss = -1;
}

std::string RunState::Note() const {
  const nn::LossResult& loss = position.log_loss.weight_sum > 0 ? position.log_loss : position.epoch_loss;
  return fmt::format("loss {}  acc {:.1f} %", LossText(loss.loss()), 100 * loss.frame_accuracy());
}

RunState::Totals RunState::Sum(const nn::LossResult& loss, int64_t frames, const parallel::Strategy& strategy) {
  CountBytes();
  Totals totals{loss, static_cast<double>(frames), static_cast<double>(position.frames),
                static_cast<double>(position.bytes_sent)};
  if (comm_.world_size() == 1) return totals;
  std::vector<double> sums;
  // A loss that is found here changes what the first one has counted.
  comm_.Together([&] {
    sums = {loss.loss_sum,
            loss.weight_sum,
            loss.correct_sum,
            totals.new_frames,
            static_cast<double>(position.frames),
            static_cast<double>(position.bytes_sent)};
    comm_.AllReduce(std::span<double>(sums));
  });
  // Ranks that hold one replica together all tell of the same frames.
  const double readers = strategy.data_share().readers;
  for (size_t i = 0; i < 5; ++i) sums[i] /= readers;
  return {{sums[0], sums[1], sums[2]}, sums[3], sums[4], sums[5]};
}

void RunState::LogSteps(const StepFigures& figures, const parallel::Strategy& strategy, SideSpeech* side) {
  const double seconds = StepSeconds(position) - seconds_then_;
  const double arithmetic = position.arithmetic_seconds - arithmetic_seconds_then_;
  Totals totals{position.log_loss, static_cast<double>(new_frames_), static_cast<double>(position.frames), 0};
  if (strategy.synchronous()) totals = Sum(position.log_loss, new_frames_, strategy);
  const nn::LossResult& loss = totals.loss;
  report::MetricsRecord record("step");
  record.Set("epoch", position.epoch + 1)
      .Set("step", position.step)
      .Set("frames", static_cast<int64_t>(totals.frames))
      .Set("progress", figures.progress)
      .Set("train_loss", loss.loss())
      .Set("train_accuracy", loss.frame_accuracy())
      .Set("learning_rate", figures.learning_rate)
      .Set("dropout_factor", figures.dropout_factor)
      .Set("frames_per_second", seconds > 0 ? totals.new_frames / seconds : 0.0)
      .Set("arithmetic_share", seconds > 0 ? arithmetic / seconds : 1.0);
  // Of this rank alone.
  if (side != nullptr) {
    const nn::LossResult seen = side->TakeSeen();
    record.Set("side_loss", seen.loss()).Set("side_accuracy", seen.frame_accuracy());
    log_.Scalar("accuracy/side", position.step, seen.frame_accuracy());
  }
  if (const nn::LossResult seen = std::exchange(branch_seen_, {}); seen.weight_sum > 0) {
    record.Set("branch_loss", seen.loss()).Set("branch_accuracy", seen.frame_accuracy());
    log_.Scalar("accuracy/branch", position.step, seen.frame_accuracy());
  }
  log_.Write(record);
  log_.Scalar("loss/train", position.step, loss.loss());
  log_.Scalar("accuracy/train", position.step, loss.frame_accuracy());
  log_.Scalar("learning_rate", position.step, figures.learning_rate);
  if (seconds > 0) log_.Scalar("frames_per_second", position.step, totals.new_frames / seconds);
  position.log_loss = {};
  new_frames_ = 0;
  seconds_then_ = StepSeconds(position);
  arithmetic_seconds_then_ = position.arithmetic_seconds;
}

void RunState::LogEpoch(const nn::LossResult& held_out, double rate, bool accepted,
                        const parallel::Strategy& strategy) {
  const Totals totals = Sum(position.epoch_loss, 0, strategy);
  const nn::LossResult& train = totals.loss;
  const double seconds = StepSeconds(position);
  report::MetricsRecord record("epoch");
  record.Set("epoch", position.epoch + 1)
      .Set("step", position.step)
      .Set("frames", static_cast<int64_t>(totals.frames))
      .Set("train_loss", train.loss())
      .Set("train_accuracy", train.frame_accuracy())
      .Set("held_out_loss", held_out.loss())
      .Set("held_out_accuracy", held_out.frame_accuracy())
      .Set("learning_rate", rate)
      .Set("accepted", accepted)
      .Set("arithmetic_seconds", position.arithmetic_seconds)
      .Set("data_seconds", position.data_seconds)
      .Set("communication_seconds", position.communication_seconds)
      .Set("other_seconds", position.other_seconds)
      .Set("virtual_seconds", comm_.time_is_virtual() ? comm_.Now() : 0.0)
      .Set("bytes_sent", static_cast<int64_t>(totals.bytes_sent))
      .Set("frames_per_second", seconds > 0 ? totals.frames / seconds : 0.0);
  // Of this rank; in a pipeline, rank 0 misses most.
  if (staleness_ > 0) record.Set("staleness", staleness_ / static_cast<double>(staleness_steps_));
  staleness_ = 0;
  staleness_steps_ = 0;
  comm::FaultPoint("telling", comm_.rank(), position.step);
  times_.Tell(position, record, log_);
  log_.Write(record);
  log_.Scalar("loss/held_out", position.step, held_out.loss());
  log_.Scalar("accuracy/held_out", position.step, held_out.frame_accuracy());
  if (comm_.rank() != 0) return;
  log::Info("epoch {}: train loss {}, accuracy {:.2f} %; held-out loss {}, accuracy {:.2f} %; rate {:.4g}{}",
            position.epoch + 1, LossText(train.loss()), 100 * train.frame_accuracy(), LossText(held_out.loss()),
            100 * held_out.frame_accuracy(), rate, accepted ? "" : "; no better, back to the best model");
}

void RunState::LogFinish(const TrainingSummary& summary) {
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
      .Set("communication_seconds", position.communication_seconds)
      .Set("arithmetic_share", summary.arithmetic_share)
      .Set("virtual_seconds", summary.virtual_seconds)
      .Set("model_hash", fmt::format("{:016x}", summary.model_hash));
  if (summary.side_probe.kinds > 0) {
    record.Set("side_layer", summary.side_layer)
        .Set("side_probe_kinds", summary.side_probe.kinds)
        .Set("side_probe_accuracy", summary.side_probe.accuracy);
  }
  log_.Write(record);
}

TrainingSummary RunState::Summary(const parallel::Strategy& strategy) {
  const Totals totals = Sum({}, 0, strategy);
  TrainingSummary summary;
  summary.epochs = position.epoch;
  summary.steps = position.step;
  summary.frames = static_cast<int64_t>(totals.frames);
  summary.bytes_sent = static_cast<int64_t>(totals.bytes_sent);
  const double seconds = StepSeconds(position);
  summary.seconds = seconds + position.other_seconds;
  summary.frames_per_second = seconds > 0 ? static_cast<double>(summary.frames) / seconds : 0;
  summary.arithmetic_share = seconds > 0 ? position.arithmetic_seconds / seconds : 1;
  summary.fallbacks = position.fallbacks;
  summary.lost_workers = position.lost_workers;
  summary.given_back = position.given_back;
  if (comm_.time_is_virtual()) summary.virtual_seconds = comm_.Now();
  return summary;
}

}  // namespace antiphon::train
