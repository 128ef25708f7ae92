// Augmented Lagrangian (ADMM consensus): workers minimise their own losses under the constraint that all agree.
//
// min Σ J_k(θ_k) subject to θ_k = z. A round: each worker takes `sync-period` steps on J_k + λ_kᵀ(θ − z) + ρ/2·‖θ −
// z‖²; then z = mean(θ_k + λ_k/ρ) and λ_k += ρ·(θ_k − z), after which Σ λ_k = 0. z is evaluated and kept. The
// constraint's part is taken implicitly after every `pull-every`-th step of the optimiser for all of them at once, θ ←
// (θ − ε·λ + ε·ρ·z)/(1 + ε·ρ), which is stable for every ρ.
// ρ: as z stands still during a round, the constraint holds back the steps that it is to learn from, by a factor of
// about 1 − ρ·ε·period/2; but weak constraints let the workers part. What counts is ρ·ε·period, the share of the way to
// z that a round takes back, so that is the option: `pull`, with ρ = pull/(ε·period) for the rate ε of the moment.
// `rho` fixes ρ itself, as in the book. Residual balancing doubles ρ when the workers disagree, √Σ‖θ_k − z‖², ten times
// as much as z still moves, √N·‖Δz‖, and halves it in the opposite case (Boyd's residuals are these, the second times
// ρ; as distances both, no unit of the loss enters). The mean of N workers goes no farther than one of them, so that N
// workers who share an epoch want N times the rate (`rate-scaling`).
// A worker's multipliers belong to its data: those should stay with it (data.distribution "shards"). In an order common
// to all workers its loss is another one in each epoch.
// On convex problems z tends to the joint optimum, which averaging does not; networks give no such promise. Exchanged:
// θ_k + λ_k/ρ, one AllReduce per round, and two residuals. Bytes per round and rank: 2 · 4 · parameters. Staleness:
// none. Determinism: the same bits wherever the workers run. One worker has nothing to agree with and is plain
// training. Optimisers that precondition gradients are refused: they would weigh losses and constraint differently.
// Source: Boyd et al., Foundations and Trends in Machine Learning 3(1), 2011, sections 3.4 and 7.1.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/parallel.h"
#include "parallel/periodic.h"
#include "parallel/strategy_traits.h"

namespace antiphon::parallel {
namespace {

constexpr size_t kBlock = 4096;

struct AdmmOptions {
  PeriodOptions period = {.sync_period = 16};
  RateScalingOptions scaling;
  double pull = 0.3;
  double rho = 0;
  int pull_every = 4;
  bool balance = true;
  template <class V>
  void Visit(V& v) {
    period.Visit(v);
    scaling.Visit(v);
    v("pull", pull, Range{1e-6, 1e6}, "part of the way to the consensus that the constraint takes a worker in a round");
    v("rho", rho, Range{0, 1e9}, "ρ, weight of the constraint in loss per squared distance; 0: as pull says");
    v("pull-every", pull_every, Range{1, 1 << 30}, "steps whose share of the constraint is taken at once");
    v("balance", balance, "adapt ρ so that disagreement and movement stay within a factor of ten");
  }
};

class Admm : public PeriodicStrategy {
 public:
  Admm(const AdmmOptions& options, const Replica& replica)
      : PeriodicStrategy(options.period, options.scaling, replica),
        options_(options),
        lambda_(replica.network->num_values(), 0.0f) {
    if (options.period.sync_period == 0 && options.period.sync_frames == 0) {
      throw UsageError("method 'admm' needs a sync-period of at least 1");
    }
    if (replica.optimizer->needs_factors() && replica.comm->world_size() > 1) {
      throw UsageError("method 'admm' needs an optimizer that follows the gradient itself, not 'natural-gradient'");
    }
  }

  optim::StepReport AfterStep(const StepInput& input) override {
    if (comm().world_size() == 1) return PeriodicStrategy::AfterStep(input);
    const optim::StepReport report = optimizer().EndStep();
    rate_ = input.learning_rate;
    owed_ += rate_;
    if (++steps_owed_ >= options_.pull_every) PullToConsensus();
    CountStep(input);
    return report;
  }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    PeriodicStrategy::SaveState(writer, prefix);
    writer.Add(prefix + ".lambda", std::span<const float>(lambda_));
    const double penalty[] = {balance_, rate_, owed_, static_cast<double>(steps_owed_)};
    writer.Add(prefix + ".penalty", std::span<const double>(penalty));
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    PeriodicStrategy::LoadState(reader, prefix);
    LoadValues(reader, prefix + ".lambda", lambda_);
    const std::vector<double> penalty = reader.ReadDoubles(prefix + ".penalty");
    balance_ = penalty.at(0);
    rate_ = penalty.at(1);
    owed_ = penalty.at(2);
    steps_owed_ = static_cast<int>(penalty.at(3));
  }
  // The multipliers belong to the losses of then: the new workers begin without.
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override {
    PeriodicStrategy::LoadFolded(ranks, prefix);
    std::fill(lambda_.begin(), lambda_.end(), 0.0f);
  }
  void ResetState() override {
    PeriodicStrategy::ResetState();
    std::fill(lambda_.begin(), lambda_.end(), 0.0f);
    balance_ = 1;
    owed_ = 0;
    steps_owed_ = 0;
  }

  // Multipliers, the consensus that is being made, and the own model while it is evaluated.
  size_t copy_bytes() const override { return PeriodicStrategy::copy_bytes() + 3 * model_bytes(); }

  std::vector<std::string> Describe() const override {
    std::vector<std::string> lines = PeriodicStrategy::Describe();
    const std::string penalty = options_.rho > 0
                                    ? fmt::format("ρ = {:.4g}", options_.rho)
                                    : fmt::format("ρ = {:.4g}/(learning rate · {} steps)", options_.pull, period());
    lines.push_back(fmt::format("consensus with {}{}", penalty, options_.balance ? ", balanced" : ""));
    return lines;
  }

 protected:
  bool exchanges_at_epoch_end() const override { return false; }
  bool meets() const override { return comm().world_size() == 1; }

  void Exchange() override {
    if (comm().world_size() == 1) return;
    if (steps_owed_ > 0) PullToConsensus();
    const std::span<const float> theta = network().values();
    const std::span<float> z = center();
    const auto rho = static_cast<float>(Rho());
    mean_.resize(theta.size());
    const float scale = 1 / rho;
    for (size_t i = 0; i < theta.size(); ++i) mean_[i] = theta[i] + scale * lambda_[i];
    const AverageReport report = Average(mean_, /*equally=*/true);
    double residuals[2] = {0, 0};
    for (size_t first = 0; first < theta.size(); first += kBlock) {
      UpdateMultipliers(rho, first, std::min(theta.size(), first + kBlock), residuals);
    }
    std::copy(mean_.begin(), mean_.end(), z.begin());
    if (!report.left_out.empty()) {
      // The multipliers no longer add up to zero: all begin anew, and whoever was left out begins at the consensus.
      std::fill(lambda_.begin(), lambda_.end(), 0.0f);
      const auto& out = report.left_out;
      if (std::find(out.begin(), out.end(), comm().rank()) != out.end()) {
        std::copy(z.begin(), z.end(), network().values().begin());
      }
      return;
    }
    if (!options_.balance) return;
    comm().AllReduce(std::span<double>(residuals));
    if (residuals[0] > 100 * residuals[1]) {
      balance_ *= 2;
    } else if (residuals[1] > 100 * residuals[0]) {
      balance_ /= 2;
    }
  }

  bool EvaluationModel(std::span<float> model) override {
    if (comm().world_size() == 1) return false;
    std::copy(center().begin(), center().end(), model.begin());
    return true;
  }

 private:
  double Rho() const {
    if (options_.rho > 0) return balance_ * options_.rho;
    return rate_ > 0 ? balance_ * options_.pull / (rate_ * period()) : balance_;
  }

  // λ of [first, last), to which mean_ is the new consensus; adds up squared distances, in fp32 within a block.
  void UpdateMultipliers(float rho, size_t first, size_t last, double* residuals) {
    const float* theta = network().values().data();
    const float* before = center().data();
    const float* mean = mean_.data();
    float* lambda = lambda_.data();
    float primal = 0, dual = 0;
#pragma omp simd reduction(+ : primal, dual)
    for (size_t i = first; i < last; ++i) {
      const float apart = theta[i] - mean[i];
      const float moved = mean[i] - before[i];
      primal += apart * apart;
      dual += moved * moved;
      lambda[i] += rho * apart;
    }
    residuals[0] += static_cast<double>(primal);
    residuals[1] += static_cast<double>(dual);
  }

  // For the steps since the last time.
  void PullToConsensus() {
    const std::span<float> theta = network().values();
    const float* z = center().data();
    const auto rate = static_cast<float>(owed_);
    const float pull = rate * static_cast<float>(Rho());
    const float shrink = 1 / (1 + pull);
    const auto size = static_cast<int64_t>(theta.size());
    ParallelRanges(size, 1, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const auto k = static_cast<size_t>(i);
        theta[k] = shrink * (theta[k] - rate * lambda_[k] + pull * z[i]);
      }
    });
    network().MarkChanged();
    owed_ = 0;
    steps_owed_ = 0;
  }

  AdmmOptions options_;
  double balance_ = 1;  // factor on ρ
  double rate_ = 0;     // of the last step
  double owed_ = 0;     // Σ of the rates of the steps whose share of the constraint is still to be taken
  int steps_owed_ = 0;
  std::vector<float> lambda_;
  std::vector<float> mean_;
};

REGISTER_COMPONENT(StrategyRegistry, "admm", [](const Config& config, const Replica& replica) {
  return std::make_unique<Admm>(ReadOptions<AdmmOptions>(config, kCommonStrategyKeys), replica);
});
REGISTER_COMPONENT(StrategyTraitsRegistry, "admm", Traits({.of_own_data = "what a worker's multipliers have learned"}));

}  // namespace
}  // namespace antiphon::parallel
