#include "train/rate_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/process_group.h"
#include "parallel/strategy_traits.h"
#include "report/progress.h"
#include "train/random_streams.h"
#include "train/run_parts.h"

namespace antiphon::train {
namespace {

constexpr size_t kFewest = 10;  // points without which nothing can be said of a curve

class RateSearch {
 public:
  RateSearch(const TrainingTask& task, const TrainOptions& train, const RateSearchOptions& options,
             parallel::SurvivingCommunicator& comm)
      : options_(options), run_(task, train, comm), dropout_(train.dropout_schedule) {
    run_.replica.NormalizeInput(run_.data);
    run_.strategy().Start();
  }

  RateCurve Run() {
    RateCurve curve;
    double mean = 0;
    double weight = 0;
    double best = 0;
    report::Progress progress("learning rates", options_.steps, "steps");
    for (int step = 0; step < options_.steps; ++step) {
      ThrowIfCancelled("looking for a learning rate");
      const double share = static_cast<double>(step) / (options_.steps - 1);
      RatePoint point{.rate = options_.from * std::pow(options_.to / options_.from, share)};
      point.loss = Step(step, point.rate);
      curve.exploded = !std::isfinite(point.loss);
      if (curve.exploded) break;
      mean = options_.smoothing * mean + (1 - options_.smoothing) * point.loss;
      weight = options_.smoothing * weight + (1 - options_.smoothing);
      point.smoothed = mean / weight;
      curve.points.push_back(point);
      if (step == 0 || point.smoothed < best) best = point.smoothed;
      curve.exploded = curve.points.size() > kFewest && point.smoothed > options_.stop_factor * best;
      if (curve.exploded) break;
      progress.Update(step + 1, [&] { return fmt::format("rate {:.3g}  loss {:.3f}", point.rate, point.smoothed); });
    }
    progress.Finish();
    Interpret(curve);
    return curve;
  }

 private:
  data::Minibatch& Next() {
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (!stream_) stream_ = std::make_unique<data::MinibatchStream>(run_.data.pool, 0, epoch_++);
      if (data::Minibatch* const minibatch = stream_->Next()) return *minibatch;
      stream_.reset();
    }
    throw InputError("the store has no minibatch to learn from");
  }

  // As TrainingStep, without its records.
  double Step(int step, double rate) {
    data::Minibatch& minibatch = Next();
    parallel::StepInput input;
    input.context.precision = ParsePrecision(run_.options.precision);
    input.context.training = true;
    input.context.seed = SeedOf(run_.task.seed, RandomStream::kMasks);
    input.context.step = step;
    input.context.dropout_factor = dropout_.Factor(0);
    input.context.sequences = minibatch.sequences;
    input.features = minibatch.features;
    input.learning_rate = rate;
    TargetMaker& targets = run_.replica.targets();
    input.targets = targets.Make(minibatch);
    parallel::CountAlike(minibatch.fullness, input);
    nn::SideTargets* const branches = targets.side_targets();
    input.context.side_targets = branches;
    if (SideSpeech* const side = run_.replica.side()) side->Join(minibatch, step, input);
    const double loss = run_.strategy().Step(input).loss.loss();
    if (branches != nullptr) branches->tasks.front().seen = {};
    run_.network().AfterStep(step);
    return loss;
  }

  const RateSearchOptions& options_;
  RunParts run_;
  DropoutSchedule dropout_;
  std::unique_ptr<data::MinibatchStream> stream_;
  int64_t epoch_ = 0;
};

}  // namespace

void Interpret(RateCurve& curve) {
  curve.steepest.reset(), curve.lowest.reset();
  const std::vector<RatePoint>& p = curve.points;
  if (p.size() < kFewest) {
    curve.remark = "the loss exploded at once: search from a lower rate";
    return;
  }
  const auto least = static_cast<size_t>(
      std::min_element(p.begin(), p.end(), [](const auto& a, const auto& b) { return a.smoothed < b.smoothed; }) -
      p.begin());
  // The mean of few minibatches is none: what happens there is chance.
  const size_t first = kFewest / 2;
  if (least <= first) {
    curve.remark = "the loss never fell: search from a lower rate, or look at the data";
    return;
  }
  curve.lowest = p[least].rate;
  double steepest = 0;
  for (size_t i = first; i + 1 <= least; ++i) {
    // Over some points, so that one minibatch does not decide.
    const size_t before = i - std::min(i, size_t{3});
    const size_t behind = std::min(i + 3, least);
    const double slope = (p[behind].smoothed - p[before].smoothed) / std::log(p[behind].rate / p[before].rate);
    if (slope < steepest) {
      steepest = slope;
      curve.steepest = p[i].rate;
    }
  }
  if (!curve.exploded && least + 1 >= p.size()) {
    curve.remark = "the loss still fell at the highest rate: search up to a higher one";
  }
}

RateCurve SearchLearningRate(TrainingRequest request, const RateSearchOptions& options) {
  if (options.from >= options.to) Throw<UsageError>("from = {} is not below to = {}", options.from, options.to);
  if (!parallel::TraitsOf(request.parallel).one_worker) {
    log::Info("by one worker, instead of method '{}'", parallel::MethodOf(request.parallel));
    request.parallel = Config();
    request.cluster = Config();
  }
  PrepareRequest(request);
  const TrainingTask task = ReadTask(request);
  // Only the first steps are looked at, whatever comes later in the run.
  request.train.average = {};
  RateCurve curve;
  const int threads = ComputeThreads();
  comm::ProcessGroup::Alone()->RunRanks(1, [&](comm::Communicator& of_group) {
    SetComputeThreads(threads);
    parallel::SurvivingCommunicator comm(of_group);
    curve = RateSearch(task, request.train, options, comm).Run();
  });
  return curve;
}

}  // namespace antiphon::train
