// Learning rates over a training run.
//
// Three schedules: "constant"; "exponential" ε = ε₀·(ε_f/ε₀)^progress; "newbob", decided after each epoch from the
// held-out loss.
// Units: rates per frame-averaged gradient; losses in nats per frame, lower is better.
// Threads: one owner.
// Source: Kaldi's nnet1 train_scheduler.sh (newbob) and nnet3 train.py (exponential).
#pragma once

#include <array>
#include <string>

#include "base/enum_option.h"
#include "base/options.h"
#include "math/safetensors.h"

namespace antiphon::optim {

enum class ScheduleType { kConstant, kExponential, kNewbob };
inline constexpr std::array kScheduleTypes = {EnumName{ScheduleType::kConstant, "constant"},
                                              EnumName{ScheduleType::kExponential, "exponential"},
                                              EnumName{ScheduleType::kNewbob, "newbob"}};

struct ScheduleOptions {
  ScheduleType type = ScheduleType::kExponential;
  double learning_rate = 0.8;
  double final_learning_rate = 0.08;
  int epochs = 10;
  double warmup = 0.0;
  double halving_factor = 0.5;
  double start_halving_improvement = 0.01;
  double end_halving_improvement = 0.001;
  int min_epochs = 0;

  template <class V>
  void Visit(V& v) {
    VisitEnum(v, "type", type, kScheduleTypes, "how the learning rate develops");
    v("learning-rate", learning_rate, Range{0, 1e6}, "initial rate per frame-averaged gradient");
    v("final-learning-rate", final_learning_rate, Range{0, 1e6}, "rate at the end (exponential)");
    v("epochs", epochs, Range{1, 100000}, "passes over the data; newbob may stop earlier");
    v("warmup", warmup, Range{0, 1}, "fraction of the run over which the rate rises linearly from 0");
    v("halving-factor", halving_factor, Range{1e-6, 1}, "newbob: factor on the rate once it has begun to halve");
    v("start-halving-improvement", start_halving_improvement, Range{0, 1},
      "newbob: relative improvement below which halving begins");
    v("end-halving-improvement", end_halving_improvement, Range{0, 1},
      "newbob: relative improvement below which training ends while halving");
    v("min-epochs", min_epochs, Range{0, 100000}, "newbob: halving does not begin before this many epochs");
  }
};

/// What to do after an epoch.
struct EpochDecision {
  bool accept = true;  // else: go back to the best model so far
  bool stop = false;
};

class Schedule {
 public:
  explicit Schedule(const ScheduleOptions& options);

  /// Rate for the next step; progress = fraction of all frames already seen, in [0, 1].
  double LearningRate(double progress) const;
  /// To be called once before training with the initial model's held-out loss (newbob), then after every epoch.
  void SetInitialLoss(double held_out_loss);
  EpochDecision EndEpoch(double held_out_loss);
  /// Multiplies all further rates: what a guard does after falling back.
  void ScaleRates(double factor) { scale_ *= factor; }

  double best_loss() const { return best_loss_; }
  /// Decides after each epoch whether its model is kept and whether training ends: somebody has to keep the best one,
  /// and the length of the run is not known.
  bool decides() const { return options_.type == ScheduleType::kNewbob; }
  int epochs_done() const { return epochs_done_; }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const;
  void LoadState(const SafetensorsReader& reader, const std::string& prefix);

 private:
  ScheduleOptions options_;
  double scale_ = 1;
  double newbob_rate_;
  bool halving_ = false;
  double best_loss_;
  int epochs_done_ = 0;
};

}  // namespace antiphon::optim
