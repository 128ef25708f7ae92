// A learning rate to begin with, found in some hundred minibatches.
//
// A fresh network learns from the first minibatch on while the rate rises exponentially from `from` to `to`. At rates
// that are too low the loss hardly falls; then it falls faster and faster; then it explodes. The rate at which the
// smoothed loss falls fastest, per factor of the rate, is a good first rate; a tenth of the one where it is lowest is
// the other common choice, and both are told.
//
// By one worker, whatever `parallel` says: of methods that put the minibatches of several workers into one gradient,
// the rate found is a lower bound. Nothing is written.
// Units: rates per frame-averaged gradient; losses in nats per frame. Threads: one caller; arithmetic in its compute
// threads. Errors: UsageError and InputError as training; Cancelled.
// Source: range test of Smith, WACV 2017.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "train/training_request.h"

namespace antiphon::train {

struct RateSearchOptions {
  double from = 1e-4;
  double to = 100;
  int steps = 300;
  double smoothing = 0.95;
  double stop_factor = 3;

  template <class V>
  void Visit(V& v) {
    v("from", from, Range{1e-12, 1e6}, "lowest rate");
    v("to", to, Range{1e-12, 1e6}, "highest rate; the search ends earlier if the loss explodes");
    v("steps", steps, Range{20, 1e6}, "minibatches, if it does not end earlier");
    v("smoothing", smoothing, Range{0, 0.999}, "share of the old mean in the running mean of the loss");
    v("stop-factor", stop_factor, Range{1.01, 1e6}, "multiple of the lowest smoothed loss at which the search ends");
  }
};

struct RatePoint {
  double rate = 0;
  double loss = 0;      // of the minibatch
  double smoothed = 0;  // running mean, without the bias of its beginning
};

struct RateCurve {
  std::vector<RatePoint> points;  // rates ascending
  bool exploded = false;
  std::optional<double> steepest;  // rate at which the smoothed loss falls fastest
  std::optional<double> lowest;    // rate at which it is lowest
  std::string remark;              // for the person: what the curve lacks, or ""

  /// The rate to try first; none if the loss never fell.
  std::optional<double> suggestion() const { return steepest; }
};

/// Steepest and lowest point of a curve, and the remark.
void Interpret(RateCurve& curve);

/// `request` as for RunTraining; its run folder is not touched.
RateCurve SearchLearningRate(TrainingRequest request, const RateSearchOptions& options);

}  // namespace antiphon::train
