#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace antiphon::optim {

Schedule::Schedule(const ScheduleOptions& options)
    : options_(options), newbob_rate_(options.learning_rate), best_loss_(std::numeric_limits<double>::infinity()) {
  if (options.type == ScheduleType::kExponential && options.final_learning_rate > options.learning_rate) {
    Throw<UsageError>("final-learning-rate {} is above learning-rate {}; an exponential schedule falls",
                      options.final_learning_rate, options.learning_rate);
  }
  if (options.type == ScheduleType::kExponential && options.learning_rate > 0 && options.final_learning_rate <= 0) {
    throw UsageError("an exponential schedule never reaches a final-learning-rate of 0; give a small positive one");
  }
}

double Schedule::LearningRate(double progress) const {
  const double clamped = std::clamp(progress, 0.0, 1.0);
  double rate = options_.learning_rate;
  if (decides()) {
    rate = newbob_rate_;
  } else if (options_.type == ScheduleType::kExponential && rate > 0) {
    rate *= std::pow(options_.final_learning_rate / options_.learning_rate, clamped);
  }
  if (options_.warmup > 0 && clamped < options_.warmup) rate *= clamped / options_.warmup;
  return rate * scale_;
}

void Schedule::SetInitialLoss(double held_out_loss) { best_loss_ = held_out_loss; }

// Newbob as in Kaldi's nnet1: the relative improvement is measured on the accepted loss, so that one rejection while
// the rate is already halving ends training.
EpochDecision Schedule::EndEpoch(double held_out_loss) {
  ++epochs_done_;
  const double before = best_loss_;
  const bool better = held_out_loss < before;
  if (better) best_loss_ = held_out_loss;
  EpochDecision decision{true, epochs_done_ >= options_.epochs};
  if (!decides()) return decision;

  decision.accept = better;
  double improvement = 0;
  if (better) improvement = std::isfinite(before) ? (before - held_out_loss) / before : 1.0;
  if (epochs_done_ < options_.min_epochs) return decision;
  if (halving_ && improvement < options_.end_halving_improvement) decision.stop = true;
  if (improvement < options_.start_halving_improvement) halving_ = true;
  if (halving_) newbob_rate_ *= options_.halving_factor;
  return decision;
}

void Schedule::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  const double state[] = {scale_, newbob_rate_, halving_ ? 1.0 : 0.0, best_loss_, static_cast<double>(epochs_done_)};
  writer.Add(prefix + ".schedule", std::span<const double>(state));
}

void Schedule::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  const std::vector<double> state = reader.ReadDoubles(prefix + ".schedule");
  if (state.size() != 5) {
    Throw<InputError>("{}: '{}.schedule' has {} values, expected 5", reader.path().string(), prefix, state.size());
  }
  scale_ = state[0];
  newbob_rate_ = state[1];
  halving_ = state[2] != 0;
  best_loss_ = state[3];
  epochs_done_ = static_cast<int>(state[4]);
}

}  // namespace antiphon::optim
