// Elastic averaging SGD: every worker is tied to a common centre by a spring.
//
// Every `sync-period` steps e_i = α·(x_i − x̃), x_i −= e_i, x̃ += Σ e_i, with α = `elasticity`/workers. The centre is
// what is evaluated and kept; the workers explore around it. "easgd" leaves the optimiser as it is; "eamsgd" demands
// Nesterov momentum of it. The centre follows the workers' mean, `sync-period`/`elasticity` steps behind, and so goes
// as far as one worker in as many steps: where N workers share an epoch's data, it wants N times the rate
// (`rate-scaling`). The paper gives every worker all data, and compares after equal numbers of each one's steps.
// Synchronous (default): exchanged is Σ e_i, one AllReduce; every rank holds the same centre. Bytes per exchange and
// rank: 2 · 4 · parameters. Determinism: the same bits wherever the workers run.
// `asynchronous = true`: the centre lies in parts on all ranks; each worker reads it and adds its e_i when it gets
// there, at times of its own, so that nobody waits; bytes as before, staleness up to the longest step of another
// worker, bits depend on the order of arrivals. Stability: e_i is taken after the gradient's step, which is stable for
// every α ≤ 1 where the step alone is; taken at the same point as the gradient, round-robin exchange on a quadratic
// with εh the learning rate times its curvature would need α ≤ (4 − 2εh)/(4 − εh). One worker has no centre and is
// plain training. A worker that went astray (parallel/replica_average.h) is put back to the centre instead of pulling
// it; asynchronous ones leave word with rank 0 of how far from the centre each was at its last exchange. Source: Zhang,
// Choromanska, LeCun, NIPS 2015.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/elementwise.h"
#include "parallel/periodic.h"

namespace antiphon::parallel {
namespace {

constexpr int kCentreWindow = 7;
constexpr int kDistanceWindow = 8;
constexpr float kLeftOut = -1;  // in place of a distance

struct EasgdOptions {
  PeriodOptions period = {.sync_period = 10};
  RateScalingOptions scaling;
  double elasticity = 0.9;
  bool asynchronous = false;
  template <class V>
  void Visit(V& v) {
    period.Visit(v);
    scaling.Visit(v);
    v("elasticity", elasticity, Range{0, 1e6}, "β = workers · α: part of the way that the centre moves per exchange");
    v("asynchronous", asynchronous, "every worker exchanges at times of its own");
  }
};

class Easgd : public PeriodicStrategy {
 public:
  Easgd(const EasgdOptions& options, const Replica& replica, bool needs_momentum)
      : PeriodicStrategy(options.period, options.scaling, replica),
        options_(options),
        alpha_(static_cast<float>(options.elasticity / replica.comm->world_size())) {
    if (options.period.sync_period == 0 && options.period.sync_frames == 0) {
      throw UsageError("methods 'easgd' and 'eamsgd' need a sync-period of at least 1");
    }
    if (needs_momentum && replica.optimizer->momentum() == 0) {
      throw UsageError(
          "method 'eamsgd' is elastic averaging of workers with momentum: give optimizer.momentum (0.9 … 0.99) and "
          "optimizer.nesterov = true, or take method 'easgd'");
    }
    if (alpha_ > 1) {
      Throw<UsageError>(
          "elasticity {} over {} workers moves a worker by more than its distance from the centre; give "
          "at most {}",
          options.elasticity, replica.comm->world_size(), replica.comm->world_size());
    }
  }
  ~Easgd() override {
    // Others may still reach for the part of the centre that lies here.
    if (!window_open_) return;
    comm().LeaveBehind(std::move(part_));
    comm().LeaveBehind(std::move(distances_));
  }

  bool synchronous() const override { return !Asynchronous(); }
  // The parts of an asynchronous centre are lost with their ranks.
  SurvivesLosses* survival() override { return options_.asynchronous ? nullptr : this; }
  int64_t AfterLoss(const Loss& loss) override {
    alpha_ = std::min(1.0f, static_cast<float>(options_.elasticity / comm().world_size()));
    return PeriodicStrategy::AfterLoss(loss);
  }

  void Start() override {
    PeriodicStrategy::Start();
    if (!Asynchronous()) return;
    const size_t first = comm().Part(comm().rank(), center().size());
    part_.assign(center().begin() + static_cast<std::ptrdiff_t>(first),
                 center().begin() + static_cast<std::ptrdiff_t>(comm().Part(comm().rank() + 1, center().size())));
    distances_.assign(comm().rank() == 0 ? static_cast<size_t>(comm().world_size()) : 0, 0.0f);
    comm().OpenWindow(kDistanceWindow, distances_);
    comm().OpenWindow(kCentreWindow, part_);
    window_open_ = true;
  }

  void Finish() override {
    PeriodicStrategy::Finish();
    if (!window_open_) return;
    comm().CloseWindow(kCentreWindow);
    comm().CloseWindow(kDistanceWindow);
    window_open_ = false;
  }

  void ResetState() override {
    PeriodicStrategy::ResetState();
    if (window_open_) OwnPartFromCentre();
  }

  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    PeriodicStrategy::LoadState(reader, prefix);
    if (window_open_) OwnPartFromCentre();
  }
  // Within an epoch a worker's idea of an asynchronous centre is as old as its last exchange.
  void BeforeSave() override { ReadCentreTogether(); }

  // The pull, the own model while the centre is evaluated, and of an asynchronous centre this rank's part.
  size_t copy_bytes() const override {
    const size_t part = options_.asynchronous ? model_bytes() / static_cast<size_t>(comm().world_size()) : 0;
    return PeriodicStrategy::copy_bytes() + 2 * model_bytes() + part;
  }

  std::vector<std::string> Describe() const override {
    std::vector<std::string> lines = PeriodicStrategy::Describe();
    lines.push_back(fmt::format(
        "elastic centre: each exchange moves a worker by {:.4g} of the way to it{}{}", static_cast<double>(alpha_),
        options_.asynchronous ? ", asynchronously" : "",
        optimizer().momentum() > 0 ? fmt::format("; workers' momentum {:.4g}", optimizer().momentum()) : ""));
    return lines;
  }

 protected:
  // Workers keep to themselves between exchanges; an epoch's end is none.
  bool exchanges_at_epoch_end() const override { return false; }
  bool meets() const override { return comm().world_size() == 1; }

  void Exchange() override {
    if (comm().world_size() == 1) return;
    pull_.resize(center().size());
    Asynchronous() ? ExchangeAlone() : ExchangeTogether();
  }

  bool EvaluationModel(std::span<float> model) override {
    if (comm().world_size() == 1) return false;
    ReadCentreTogether();
    std::copy(center().begin(), center().end(), model.begin());
    return true;
  }

 private:
  bool Asynchronous() const { return options_.asynchronous && comm().world_size() > 1; }

  // A loss changes α for the next exchange.
  void ExchangeTogether() {
    const std::span<float> x = network().values();
    const float alpha = alpha_;
    Pull(alpha, x);
    const Standing mine = OwnStanding();
    AverageReport report;
    bool left_out = false;  // by the numbers that ranks have in the body
    comm().Together(std::span(pull_), [&] {
      report = JudgeReplicas(GatherStandings(comm(), mine), outlier_factor());
      left_out = report.LeavesOut(comm().rank());
      if (left_out) std::fill(pull_.begin(), pull_.end(), 0.0f);
      comm().AllReduce(std::span(pull_));
    });
    Heed(report, left_out);
    left_out ? BackToCentre(x) : Yield(alpha, x);
    AddScaled(1.0f, ConstMatrixView(pull_.data(), 1, std::ssize(pull_)),
              MatrixView(center().data(), 1, std::ssize(pull_)));
  }

  void ExchangeAlone() {
    const std::span<float> x = network().values();
    ReadCentre();
    const Standing mine = OwnStanding();
    const AverageReport report = JudgeReplicas(ReadStandings(mine), outlier_factor());
    const bool left_out = report.LeavesOut(comm().rank());
    Heed(report, left_out);
    ShowDistance(left_out ? kLeftOut : static_cast<float>(mine.distance));
    if (left_out) return BackToCentre(x);
    Pull(alpha_, x);
    Yield(alpha_, x);
    for (int r = 0; r < comm().world_size(); ++r) {
      const size_t first = comm().Part(r, pull_.size());
      comm().Accumulate(r, kCentreWindow, 0, 1.0f,
                        std::span<const float>(pull_).subspan(first, comm().Part(r + 1, pull_.size()) - first));
    }
  }

  Standing OwnStanding() {
    return {.weight = 1, .distance = DistanceBetween(network().values(), center()), .usable = usable() ? 1.0 : 0.0};
  }

  // Of the others, as they were when they exchanged last.
  std::vector<Standing> ReadStandings(const Standing& mine) {
    seen_.resize(static_cast<size_t>(comm().world_size()));
    comm().Get(0, kDistanceWindow, 0, seen_);
    std::vector<Standing> all;
    for (const float d : seen_) {
      all.push_back({.weight = d > 0 ? 1.0 : 0.0, .distance = std::max(0.0f, d), .usable = d < 0 ? 0.0 : 1.0});
    }
    all[static_cast<size_t>(comm().rank())] = mine;
    return all;
  }

  // Nobody else writes there, so that the sum is it.
  void ShowDistance(float distance) {
    const float change = distance - seen_[static_cast<size_t>(comm().rank())];
    comm().Accumulate(0, kDistanceWindow, static_cast<size_t>(comm().rank()), 1.0f, {&change, 1});
  }

  void BackToCentre(std::span<float> x) { std::copy(center().begin(), center().end(), x.begin()); }

  // Fills pull_.
  void Pull(float alpha, std::span<const float> x) {
    const float* centre = center().data();
    const float* value = x.data();
    float* pull = pull_.data();
    const size_t size = x.size();
#pragma omp simd
    for (size_t i = 0; i < size; ++i) pull[i] = alpha * (value[i] - centre[i]);
  }

  // What pulls the centre is taken from the worker, before the centre moves.
  void Yield(float alpha, std::span<float> x) {
    const float* centre = center().data();
    float* value = x.data();
    const size_t size = x.size();
#pragma omp simd
    for (size_t i = 0; i < size; ++i) value[i] -= alpha * (value[i] - centre[i]);
  }

  void ReadCentre() {
    for (int r = 0; r < comm().world_size(); ++r) {
      const size_t first = comm().Part(r, center().size());
      comm().Get(r, kCentreWindow, 0, center().subspan(first, comm().Part(r + 1, center().size()) - first));
    }
  }

  void ReadCentreTogether() {
    if (!window_open_) return;
    comm().Barrier();
    ReadCentre();
    comm().Barrier();
  }

  void OwnPartFromCentre() {
    comm().Barrier();
    const size_t first = comm().Part(comm().rank(), center().size());
    std::copy_n(center().begin() + static_cast<std::ptrdiff_t>(first), part_.size(), part_.begin());
    std::fill(distances_.begin(), distances_.end(), 0.0f);
    comm().Barrier();
  }

  EasgdOptions options_;
  float alpha_;
  std::vector<float> pull_;
  // Asynchronous:
  std::vector<float> part_;       // of the centre
  std::vector<float> distances_;  // on rank 0: of each worker from the centre at its last exchange; 0: none yet
  std::vector<float> seen_;       // what stood there
  bool window_open_ = false;
};

REGISTER_COMPONENT(StrategyRegistry, "easgd", [](const Config& config, const Replica& replica) {
  return std::make_unique<Easgd>(ReadOptions<EasgdOptions>(config, kCommonStrategyKeys), replica, false);
});
REGISTER_COMPONENT(StrategyRegistry, "eamsgd", [](const Config& config, const Replica& replica) {
  return std::make_unique<Easgd>(ReadOptions<EasgdOptions>(config, kCommonStrategyKeys), replica, true);
});

}  // namespace
}  // namespace antiphon::parallel
