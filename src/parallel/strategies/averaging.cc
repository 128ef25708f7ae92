// Model averaging: every worker trains on its own minibatches, and now and then all go on from the mean of the models.
//
// Exchanged: models, one AllReduce per exchange, weighted by the frames that each worker saw. When: every `sync-period`
// steps and at epoch ends; with period 0 the workers never meet and the mean is taken for evaluation and at the end
// (one-shot averaging, for comparison: it does badly). Bytes per exchange and rank: 2 · 4 · parameters, log₂ N hops.
// Staleness: none; replicas drift apart for one period. Determinism: the same bits wherever the workers run. Period 1
// of plain SGD is synchronous SGD, to rounding. Averaging shortens the step by the number of workers, so that the rate
// is multiplied by it (`rate-scaling`). Momentum stays with each worker, or is forgotten at each exchange. Source: Su,
// Chen, arXiv 1507.01239, 2015.
#include "parallel/periodic.h"

namespace antiphon::parallel {
namespace {

struct AveragingOptions {
  PeriodOptions period;
  RateScalingOptions scaling;
  std::string momentum_at_sync = "keep";
  template <class V>
  void Visit(V& v) {
    period.Visit(v);
    scaling.Visit(v);
    v("momentum-at-sync", momentum_at_sync, OneOf{{"keep", "reset"}}, "what becomes of the workers' momentum");
  }
};

class Averaging : public PeriodicStrategy {
 public:
  Averaging(const AveragingOptions& options, const Replica& replica)
      : PeriodicStrategy(options.period, options.scaling, replica), options_(options) {}

  SurvivesLosses* survival() override { return this; }
  // Without exchanges the own model is kept while their mean is evaluated.
  size_t copy_bytes() const override { return PeriodicStrategy::copy_bytes() + (period() == 0 ? model_bytes() : 0); }

 protected:
  void Exchange() override {
    if (comm().world_size() == 1) return;
    Average(network().values());
    std::copy(network().values().begin(), network().values().end(), center().begin());
    if (options_.momentum_at_sync == "reset") optimizer().ResetMomentum();
  }

  bool EvaluationModel(std::span<float> model) override {
    if (period() > 0 || comm().world_size() == 1) return false;
    Average(model);
    return true;
  }

 private:
  AveragingOptions options_;
};

REGISTER_COMPONENT(StrategyRegistry, "averaging", [](const Config& config, const Replica& replica) {
  return std::make_unique<Averaging>(ReadOptions<AveragingOptions>(config, kCommonStrategyKeys), replica);
});

}  // namespace
}  // namespace antiphon::parallel
