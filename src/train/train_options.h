// What a training run is told, beside the tables of network, optimiser and strategy.
//
// Units: learning rates per frame-averaged gradient; frames; nats. The effective values stand in the run folder as
// config.toml.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "adapt/side_task.h"
#include "base/enum_option.h"
#include "base/options.h"
#include "data/minibatch_pool.h"
#include "optim/schedule.h"
#include "train/sequence_loss.h"

namespace antiphon::train {

enum class HeldOutUnit { kSpeaker, kUtterance };
inline constexpr std::array kHeldOutUnits = {EnumName{HeldOutUnit::kSpeaker, "speaker"},
                                             EnumName{HeldOutUnit::kUtterance, "utterance"}};

struct HeldOutOptions {
  HeldOutUnit by = HeldOutUnit::kSpeaker;
  double fraction = 0.05;
  int64_t most_frames = 400000;
  template <class V>
  void Visit(V& v) {
    VisitEnum(v, "by", by, kHeldOutUnits,
              "hold out whole speakers, or utterances of all: for corpora of few speakers, each of whom is needed");
    v("fraction", fraction, Range{0.0001, 0.5}, "share of the frames held out, if no store is given for it");
    v("most-frames", most_frames, Range{1000, 1e12},
      "frames evaluated after each epoch at most; the end takes them all");
  }
};

struct CheckpointOptions {
  double minutes = 5;
  int64_t steps = 0;
  int keep = 2;
  bool background = true;
  template <class V>
  void Visit(V& v) {
    v("minutes", minutes, Range{0, 1e6}, "time between checkpoints inside an epoch; 0: none by time");
    v("steps", steps, Range{0, 1e12}, "steps between checkpoints; 0: none by steps. Epoch ends always have one");
    v("keep", keep, Range{1, 1000}, "checkpoints kept; of several workers at least 2");
    v("background", background, "write from a copy in memory while training goes on");
  }
};

struct GuardOptions {
  double explosion_factor = 3.0;
  double rate_factor = 0.5;
  int max_fallbacks = 5;
  template <class V>
  void Visit(V& v) {
    v("explosion-factor", explosion_factor, Range{1, 1e9},
      "fall back when the running loss exceeds this multiple of that of a uniform guess, ln(senones)");
    v("rate-factor", rate_factor, Range{0.01, 0.99}, "factor on all further learning rates after falling back");
    v("max-fallbacks", max_fallbacks, Range{0, 1000},
      "failures since the last good epoch after which training gives up");
  }
};

struct AverageOptions {
  double share = 0.0;
  int halvings = 0;
  int64_t every_steps = 10;
  template <class V>
  void Visit(V& v) {
    v("share", share, Range{0, 1},
      "last part of the run over which the model is averaged; the average is taken if it is better held-out; 0: none");
    v("halvings", halvings, Range{0, 8},
      "averages over the last half of that part too, its last quarter, …; the best one held-out is taken");
    v("every-steps", every_steps, Range{1, 1e9}, "steps between two models that enter the average");
  }
};

enum class PretrainMethod { kNone, kDiscriminative, kLayerWise, kRbm };
inline constexpr std::array kPretrainMethods = {
    EnumName{PretrainMethod::kNone, "none"}, EnumName{PretrainMethod::kDiscriminative, "discriminative"},
    EnumName{PretrainMethod::kLayerWise, "layer-wise"}, EnumName{PretrainMethod::kRbm, "rbm"}};

struct PretrainOptions {
  PretrainMethod method = PretrainMethod::kNone;
  double epochs_per_layer = 0.5;
  double learning_rate = 0.0;
  double gaussian_epochs_factor = 2.0;
  double rbm_learning_rate = 0.4;
  double rbm_gaussian_learning_rate = 0.01;
  template <class V>
  void Visit(V& v) {
    VisitEnum(v, "method", method, kPretrainMethods,
              "grow the network layer by layer before training: all layers learn, only the new one learns, or RBMs");
    v("epochs-per-layer", epochs_per_layer, Range{0.001, 1000}, "passes over the data for each new layer");
    v("learning-rate", learning_rate, Range{0, 1e6}, "for growing; 0: the schedule's initial rate");
    v("gaussian-epochs-factor", gaussian_epochs_factor, Range{0.01, 100},
      "RBM: the lowest layer learns this much longer");
    v("rbm-learning-rate", rbm_learning_rate, Range{0, 100}, "RBM with Bernoulli inputs");
    v("rbm-gaussian-learning-rate", rbm_gaussian_learning_rate, Range{0, 100}, "RBM with Gaussian inputs");
  }
};

struct TeacherOptions {
  std::vector<std::string> models;
  double weight = 0.5;
  double temperature = 1;
  std::string targets;
  template <class V>
  void Visit(V& v) {
    v("models", models, "networks whose posteriors are learnt too; those of several are averaged");
    v("weight", weight, Range{0, 1}, "share of the teacher in the loss; 1: the alignment's pdf-ids are not looked at");
    v("temperature", temperature, Range{0.1, 1000}, "divides logits before the softmax, of teacher and network");
    v("targets", targets, "file of posteriors that antiphon targets stored for this store, instead of models");
  }
};

/// Where log-priors come from.
enum class PriorSource { kAlignment, kPosteriors };
inline constexpr std::array kPriorSources = {EnumName{PriorSource::kAlignment, "alignment"},
                                             EnumName{PriorSource::kPosteriors, "posteriors"}};

struct TrainOptions {
  data::MinibatchOptions data;
  optim::ScheduleOptions schedule;
  HeldOutOptions held_out;
  CheckpointOptions checkpoint;
  GuardOptions guard;
  AverageOptions average;
  PretrainOptions pretrain;
  TeacherOptions teacher;
  SequenceOptions sequence;
  adapt::SideTaskOptions side;
  int frames_per_forward = 1;
  int first_frame_offset = 0;
  std::string precision = "fp32";
  bool normalize_input = true;
  std::string dropout_schedule;
  PriorSource priors = PriorSource::kAlignment;
  int64_t log_steps = 100;
  double deadline_seconds = 600;

  template <class V>
  void Visit(V& v) {
    v.Group("data", data);
    v.Group("schedule", schedule);
    v.Group("held-out", held_out);
    v.Group("checkpoint", checkpoint);
    v.Group("guard", guard);
    v.Group("average", average);
    v.Group("pretrain", pretrain);
    v.Group("teacher", teacher);
    v.Group("sequence", sequence);
    v.Group("side", side);
    v("frames-per-forward", frames_per_forward, Range{1, 64},
      "frames that the network scores at once, with a head each");
    v("first-frame-offset", first_frame_offset, Range{-64, 64},
      "place of the first head's frame relative to the middle of the window");
    v("precision", precision, OneOf{{"fp32", "bf16", "auto"}},
      "what the factors of matrix products are rounded to; auto: bf16 where the CPU has instructions for it");
    v("normalize-input", normalize_input, "give each input zero mean and unit variance over the training data");
    v("dropout-schedule", dropout_schedule,
      "factor on the dropout proportions by fraction of the run, linear between points: '0,0@0.2,1@0.5,0'; empty: "
      "always 1");
    VisitEnum(v, "priors", priors, kPriorSources, "log-priors from alignment counts or averaged posteriors");
    v("log-steps", log_steps, Range{1, 1e9}, "steps between two lines of metrics");
    v("deadline-seconds", deadline_seconds, Range{0.1, 1e6},
      "longest wait of a worker for another one, after which the run ends with an error; longer than the final "
      "evaluation takes");
  }
};

/// A piecewise linear function of the fraction of data seen, written as Kaldi does: "0,0@0.20,0.5@0.50,0"; the first
/// value is at 0 and the last at 1 unless they say otherwise. Empty: 1 everywhere.
class DropoutSchedule {
 public:
  explicit DropoutSchedule(const std::string& text);
  double Factor(double progress) const;

 private:
  std::vector<std::pair<double, double>> points_;  // (fraction, value), fractions ascending
};

}  // namespace antiphon::train
