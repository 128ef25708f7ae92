// The part of Worker that tells how the run goes.
#include <fmt/format.h>
#include <omp.h>

#include "base/log.h"
#include "train/worker.h"

namespace antiphon::train {
namespace {

double StepSeconds(const Position& p) { return p.arithmetic_seconds + p.data_seconds + p.communication_seconds; }

}  // namespace

std::string Worker::Note() const {
  const nn::LossResult& loss = position_.log_loss.weight_sum > 0 ? position_.log_loss : position_.epoch_loss;
  return fmt::format("loss {:.3f}  acc {:.1f} %", loss.loss(), 100 * loss.frame_accuracy());
}

void Worker::LogSteps(double rate) {
  const double seconds = StepSeconds(position_) - log_interval_seconds_;
  const double arithmetic = position_.arithmetic_seconds - log_arithmetic_seconds_;
  const nn::LossResult& loss = position_.log_loss;
  log_->Write(report::MetricsRecord("step")
                  .Set("epoch", position_.epoch + 1)
                  .Set("step", position_.step)
                  .Set("frames", position_.frames)
                  .Set("progress", Progress())
                  .Set("train_loss", loss.loss())
                  .Set("train_accuracy", loss.frame_accuracy())
                  .Set("learning_rate", rate)
                  .Set("dropout_factor", dropout_.Factor(Progress()))
                  .Set("frames_per_second", seconds > 0 ? static_cast<double>(log_frames_) / seconds : 0.0)
                  .Set("arithmetic_share", seconds > 0 ? arithmetic / seconds : 1.0));
  log_->Scalar("loss/train", position_.step, loss.loss());
  log_->Scalar("accuracy/train", position_.step, loss.frame_accuracy());
  log_->Scalar("learning_rate", position_.step, rate);
  if (seconds > 0) log_->Scalar("frames_per_second", position_.step, static_cast<double>(log_frames_) / seconds);
  position_.log_loss = {};
  log_frames_ = 0;
  log_interval_seconds_ = StepSeconds(position_);
  log_arithmetic_seconds_ = position_.arithmetic_seconds;
}

void Worker::LogEpoch(const nn::LossResult& held_out, double rate, bool accepted) {
  const nn::LossResult& train = position_.epoch_loss;
  const double seconds = StepSeconds(position_);
  log_->Write(report::MetricsRecord("epoch")
                  .Set("epoch", position_.epoch + 1)
                  .Set("step", position_.step)
                  .Set("frames", position_.frames)
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
                  .Set("frames_per_second", seconds > 0 ? static_cast<double>(position_.frames) / seconds : 0.0));
  log_->Scalar("loss/held_out", position_.step, held_out.loss());
  log_->Scalar("accuracy/held_out", position_.step, held_out.frame_accuracy());
  if (comm_.rank() != 0) return;
  log::Info("epoch {}: train loss {:.4f}, accuracy {:.2f} %; held-out loss {:.4f}, accuracy {:.2f} %; rate {:.4g}{}",
            position_.epoch + 1, train.loss(), 100 * train.frame_accuracy(), held_out.loss(),
            100 * held_out.frame_accuracy(), rate, accepted ? "" : "; no better, back to the best model");
}

void Worker::LogFinish(const TrainingSummary& summary) {
  log_->Write(report::MetricsRecord("finish")
                  .Set("epochs", summary.epochs)
                  .Set("steps", summary.steps)
                  .Set("frames", summary.frames)
                  .Set("held_out_loss", summary.held_out_loss)
                  .Set("held_out_accuracy", summary.held_out_accuracy)
                  .Set("phone_accuracy", summary.phone_accuracy)
                  .Set("averaged", summary.averaged)
                  .Set("seconds", summary.seconds)
                  .Set("frames_per_second", summary.frames_per_second)
                  .Set("arithmetic_share", summary.arithmetic_share)
                  .Set("virtual_seconds", summary.virtual_seconds)
                  .Set("model_hash", fmt::format("{:016x}", summary.model_hash)));
}

TrainingSummary Worker::Summary() const {
  TrainingSummary summary;
  summary.epochs = position_.epoch;
  summary.steps = position_.step;
  summary.frames = position_.frames * comm_.world_size();
  const double seconds = StepSeconds(position_);
  summary.seconds = seconds + position_.other_seconds;
  summary.frames_per_second = seconds > 0 ? static_cast<double>(summary.frames) / seconds : 0;
  summary.arithmetic_share = seconds > 0 ? position_.arithmetic_seconds / seconds : 1;
  summary.fallbacks = position_.fallbacks;
  if (comm_.time_is_virtual()) summary.virtual_seconds = comm_.Now();
  return summary;
}

std::vector<std::string> Worker::DescribePlan() const {
  const double rate = options_.schedule.learning_rate;
  const int minibatch = options_.data.minibatch;
  std::vector<std::string> lines = {
      fmt::format("network: {} inputs, {} layers, {} outputs, {} parameters, {} on {} thread(s)", network_.in_dim(),
                  network_.num_layers(), network_.out_dim(), network_.num_parameters(), options_.precision,
                  omp_get_max_threads()),
      fmt::format("data: {} training frames, {} steps of {} frames per epoch, {} held out", pool_->num_frames(),
                  pool_->steps_per_epoch(0), minibatch,
                  held_out_utterances_.empty()
                      ? "a store of its own"
                      : fmt::format("{} utterances{}", held_out_utterances_.size(),
                                    held_out_by_speaker_ ? " by speaker" : " (one speaker only!)")),
      fmt::format(
          "learning rate: {:.4g} per frame-averaged gradient ({:.4g} per summed frame at this minibatch), schedule {}",
          rate, rate / minibatch, options_.schedule.type)};
  for (std::string& line : strategy_->Describe()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace antiphon::train
