// Augmented Lagrangian (ADMM consensus): workers minimise their own losses under the constraint that all agree.
//
// min Σ J_k(θ_k) subject to θ_k = z. A round: each worker takes `sync-period` steps on J_k + λ_kᵀ(θ − z) + ρ/2·‖θ −
// z‖²; then z = mean(θ_k + λ_k/ρ) and λ_k += ρ·(θ_k − z), after which Σ λ_k = 0. z is evaluated and kept. The
// constraint's part of a step is taken implicitly after the optimiser's, θ ← (θ − ε·λ + ε·ρ·z)/(1 + ε·ρ), which has the
// same fixed point and is stable for every ρ. Residual balancing doubles ρ when the workers disagree (primal residual)
// ten times as much as z still moves (dual residual), and halves it in the opposite case. On convex problems z tends to
// the joint optimum, which averaging does not; networks give no such promise. Exchanged: θ_k + λ_k/ρ, one AllReduce per
// round, and two residuals. Bytes per round and rank: 2 · 4 · parameters. Staleness: none. Determinism: the same bits
// wherever the workers run. One worker has nothing to agree with and is plain training. Optimisers that precondition
// gradients are refused: they would weigh losses and constraint differently. Source: Boyd et al., Foundations and
// Trends in Machine Learning 3(1), 2011, sections 3.4 and 7.1.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "parallel/periodic.h"

namespace antiphon::parallel {
namespace {

struct AdmmOptions {
  PeriodOptions period = {.sync_period = 16};
  RateScalingOptions scaling = {.rate_scaling = "none"};
  double rho = 0.05;
  bool balance = true;
  template <class V>
  void Visit(V& v) {
    period.Visit(v);
    scaling.Visit(v);
    v("rho", rho, Range{1e-9, 1e9}, "ρ, weight of the constraint, in units of loss per squared distance");
    v("balance", balance, "adapt ρ so that disagreement and movement stay within a factor of ten");
  }
};

class Admm : public PeriodicStrategy {
 public:
  Admm(const AdmmOptions& options, const Replica& replica)
      : PeriodicStrategy(options.period, options.scaling, replica),
        options_(options),
        rho_(options.rho),
        lambda_(replica.network->num_values(), 0.0f) {
    if (options.period.sync_period == 0 && options.period.sync_frames == 0) {
      throw UsageError("method 'admm' needs a sync-period of at least 1");
    }
    if (replica.optimizer->needs_factors() && replica.comm->world_size() > 1) {
      throw UsageError("method 'admm' needs an optimizer that follows the gradient itself, not 'natural-gradient'");
    }
  }

  optim::StepReport AfterStep(const StepInput& input) override {
    if (comm().world_size() > 1) {
      const optim::StepReport report = optimizer().EndStep();
      PullToConsensus(static_cast<float>(input.learning_rate));
      CountStep(input);
      return report;
    }
    return PeriodicStrategy::AfterStep(input);
  }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    PeriodicStrategy::SaveState(writer, prefix);
    writer.Add(prefix + ".lambda", std::span<const float>(lambda_));
    writer.Add(prefix + ".rho", std::span<const double>(&rho_, 1));
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    PeriodicStrategy::LoadState(reader, prefix);
    LoadValues(reader, prefix + ".lambda", lambda_);
    rho_ = reader.ReadDoubles(prefix + ".rho").at(0);
  }
  // The multipliers belong to the losses of then: the new workers begin without.
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override {
    PeriodicStrategy::LoadFolded(ranks, prefix);
    std::fill(lambda_.begin(), lambda_.end(), 0.0f);
  }
  void ResetState() override {
    PeriodicStrategy::ResetState();
    std::fill(lambda_.begin(), lambda_.end(), 0.0f);
    rho_ = options_.rho;
  }

  std::vector<std::string> Describe() const override {
    std::vector<std::string> lines = PeriodicStrategy::Describe();
    lines.push_back(fmt::format("consensus with ρ = {:.4g}{}", rho_, options_.balance ? ", balanced" : ""));
    return lines;
  }

 protected:
  bool exchanges_at_epoch_end() const override { return false; }

  void Exchange() override {
    if (comm().world_size() == 1) return;
    const std::span<const float> theta = network().values();
    const std::span<float> z = center();
    const auto rho = static_cast<float>(rho_);
    mean_.resize(theta.size());
    for (size_t i = 0; i < theta.size(); ++i) mean_[i] = theta[i] + lambda_[i] / rho;
    const AverageReport report = Average(mean_, /*equally=*/true);
    double residuals[2] = {0, 0};
    for (size_t i = 0; i < theta.size(); ++i) {
      const double primal = static_cast<double>(theta[i]) - static_cast<double>(mean_[i]);
      const double dual = static_cast<double>(mean_[i]) - static_cast<double>(z[i]);
      residuals[0] += primal * primal;
      residuals[1] += rho_ * rho_ * dual * dual;
      lambda_[i] += rho * (theta[i] - mean_[i]);
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
      rho_ *= 2;
    } else if (residuals[1] > 100 * residuals[0]) {
      rho_ /= 2;
    }
  }

  bool EvaluationModel(std::span<float> model) override {
    if (comm().world_size() == 1) return false;
    std::copy(center().begin(), center().end(), model.begin());
    return true;
  }

 private:
  void PullToConsensus(float rate) {
    const std::span<float> theta = network().values();
    const float* z = center().data();
    const float pull = rate * static_cast<float>(rho_);
    const float shrink = 1 / (1 + pull);
    const auto size = static_cast<int64_t>(theta.size());
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < size; ++i) {
      const auto k = static_cast<size_t>(i);
      theta[k] = shrink * (theta[k] - rate * lambda_[k] + pull * z[i]);
    }
    network().MarkChanged();
  }

  AdmmOptions options_;
  double rho_;
  std::vector<float> lambda_;
  std::vector<float> mean_;
};

REGISTER_COMPONENT(StrategyRegistry, "admm", [](const Config& config, const Replica& replica) {
  return std::make_unique<Admm>(ReadOptions<AdmmOptions>(config, kCommonStrategyKeys), replica);
});

}  // namespace
}  // namespace antiphon::parallel
