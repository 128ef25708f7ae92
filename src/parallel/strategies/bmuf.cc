// Blockwise model-update filtering: periodic averaging with a momentum over blocks.
//
// With W̄ the workers' mean after a block that all began at W_g: G = W̄ − W_g, Δ = η·Δ + ζ·G, W = W + Δ. The next block
// begins at W_g = W (classical block momentum) or W + η·Δ (Nesterov, the default). W is the model that is evaluated and
// kept. This is the papers' form: with a constant G the model moves by ζ/(1 − η)·G per block either way; CNTK's code
// adds up G with a factor 1 − η and never takes its look-ahead back, which is the same only for η = 1 − 1/N, and
// not with Nesterov.
// Exchanged: models, one AllReduce per block. Bytes per block and rank: 2 · 4 · parameters. Staleness: none.
// Determinism: the same bits wherever the workers run. The momentum makes up for what averaging takes from the
// step, so that the learning rate stays as it is. One worker has η = 0 and is plain training.
// Source: Chen, Huo, ICASSP 2016; CNTK's BlockMomentumSGD.
#include <fmt/format.h>

#include "parallel/periodic.h"

namespace antiphon::parallel {
namespace {

struct BmufOptions {
  PeriodOptions period;
  RateScalingOptions scaling = {.rate_scaling = "none"};
  double block_momentum = -1;
  double block_learning_rate = 1;
  bool nesterov = true;
  std::string momentum_at_sync = "reset";
  template <class V>
  void Visit(V& v) {
    period.Visit(v);
    scaling.Visit(v);
    v("block-momentum", block_momentum, Range{-1, 0.9999}, "η, weight of the last block's step; -1: 1 - 1/workers");
    v("block-learning-rate", block_learning_rate, Range{1e-6, 100}, "ζ, factor on a block's own step");
    v("nesterov", nesterov, "begin a block where the momentum is going to lead");
    v("momentum-at-sync", momentum_at_sync, OneOf{{"keep", "reset"}}, "what becomes of the workers' own momentum");
  }
};

class Bmuf : public PeriodicStrategy {
 public:
  Bmuf(const BmufOptions& options, const Replica& replica)
      : PeriodicStrategy(options.period, options.scaling, replica),
        options_(options),
        derives_momentum_(options.block_momentum < 0) {
    DeriveMomentum();
    if (options.period.sync_period == 0 && options.period.sync_frames == 0) {
      throw UsageError("method 'bmuf' needs a sync-period of at least 1: without blocks there is no block momentum");
    }
    Begin();
  }

  void Start() override {
    PeriodicStrategy::Start();
    Begin();
  }
  void ResetState() override {
    PeriodicStrategy::ResetState();
    Begin();
  }
  bool survives_losses() const override { return true; }
  int64_t AfterLoss(const Loss& loss) override {
    DeriveMomentum();
    return PeriodicStrategy::AfterLoss(loss);
  }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    PeriodicStrategy::SaveState(writer, prefix);
    writer.Add(prefix + ".model", std::span<const float>(model_));
    writer.Add(prefix + ".momentum", std::span<const float>(momentum_));
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    PeriodicStrategy::LoadState(reader, prefix);
    LoadValues(reader, prefix + ".model", model_);
    LoadValues(reader, prefix + ".momentum", momentum_);
  }

  std::vector<std::string> Describe() const override {
    std::vector<std::string> lines = PeriodicStrategy::Describe();
    lines.push_back(fmt::format("block momentum {:.4g}, block learning rate {:.4g}{}", options_.block_momentum,
                                options_.block_learning_rate, options_.nesterov ? ", Nesterov" : ""));
    return lines;
  }

 protected:
  void Exchange() override {
    const std::span<float> values = network().values();
    Average(values);
    if (options_.block_momentum == 0 && options_.block_learning_rate == 1) {
      // The same in exact arithmetic, and plain averaging to the bit.
      std::copy(values.begin(), values.end(), model_.begin());
    } else {
      Filter(values);
    }
    std::copy(values.begin(), values.end(), center().begin());
    if (comm().world_size() > 1 && options_.momentum_at_sync == "reset") optimizer().ResetMomentum();
  }

  bool EvaluationModel(std::span<float> model) override {
    if (!options_.nesterov || options_.block_momentum == 0) return false;
    std::copy(model_.begin(), model_.end(), model.begin());
    return true;
  }

 private:
  void DeriveMomentum() {
    if (derives_momentum_) options_.block_momentum = 1 - 1.0 / comm().world_size();
  }
  void Begin() {
    model_.assign(network().values().begin(), network().values().end());
    momentum_.assign(model_.size(), 0.0f);
  }

  // On entry the mean, on return where the next block begins.
  void Filter(std::span<float> values) {
    const auto eta = static_cast<float>(options_.block_momentum);
    const auto zeta = static_cast<float>(options_.block_learning_rate);
    const float look_ahead = options_.nesterov ? eta : 0.0f;
    const float* start = center().data();
    const auto size = static_cast<int64_t>(values.size());
#pragma omp parallel for simd schedule(static)
    for (int64_t i = 0; i < size; ++i) {
      const auto k = static_cast<size_t>(i);
      momentum_[k] = eta * momentum_[k] + zeta * (values[k] - start[i]);
      model_[k] += momentum_[k];
      values[k] = model_[k] + look_ahead * momentum_[k];
    }
  }

  BmufOptions options_;
  bool derives_momentum_;
  std::vector<float> model_;     // W
  std::vector<float> momentum_;  // Δ
};

REGISTER_COMPONENT(StrategyRegistry, "bmuf", [](const Config& config, const Replica& replica) {
  return std::make_unique<Bmuf>(ReadOptions<BmufOptions>(config, kCommonStrategyKeys), replica);
});

}  // namespace
}  // namespace antiphon::parallel
