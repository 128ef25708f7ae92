// Blockwise model-update filtering: periodic averaging with a momentum over blocks.
//
// With W̄ the workers' mean after a block that all began at W_g: G = W̄ − W_g, Δ = η·Δ + ζ·G, W = W + Δ. The next block
// begins at W_g = W (classical block momentum) or W + η·Δ (Nesterov, the default). W is the model that is evaluated and
// kept. This is the papers' form: with a constant G the model moves by ζ/(1 − η)·G per block either way; CNTK's code
// adds up G with a factor 1 − η and never takes its look-ahead back, which is the same only for η = 1 − 1/N, and
// not with Nesterov. Δ is what a whole block moves the model by. One cut short to a share f of its steps, as by the end
// of an epoch, counts for its share: Δ = η^f·Δ + ζ·(1 − η^f)/((1 − η)·f)·G, W = W + f·Δ, so that with a constant
// gradient it moves the model by f as much as a whole one.
// The first epochs may be synchronous (`warm-start-epochs`), as the papers begin with plain SGD.
// Exchanged: models, one AllReduce per block. Bytes per block and rank: 2 · 4 · parameters. Staleness: none.
// Determinism: the same bits wherever the workers run. The momentum makes up for what averaging takes from the
// step, so that the learning rate stays as it is. One worker has η = 0 and is plain training.
// Source: Chen, Huo, ICASSP 2016; CNTK's BlockMomentumSGD.
#include <fmt/format.h>

#include <cmath>

#include "kernels/parallel.h"
#include "parallel/periodic.h"
#include "parallel/warm_start.h"

namespace antiphon::parallel {
namespace {

struct BmufOptions {
  PeriodOptions period;
  RateScalingOptions scaling = {.rate_scaling = "none"};
  double block_momentum = -1;
  double block_learning_rate = 1;
  bool nesterov = true;
  std::string momentum_at_sync = "reset";
  int warm_start_epochs = 0;
  template <class V>
  void Visit(V& v) {
    period.Visit(v);
    scaling.Visit(v);
    v("block-momentum", block_momentum, Range{-1, 0.9999}, "η, weight of the last block's step; -1: 1 - 1/workers");
    v("block-learning-rate", block_learning_rate, Range{1e-6, 100}, "ζ, factor on a block's own step");
    v("nesterov", nesterov, "begin a block where the momentum is going to lead");
    v("momentum-at-sync", momentum_at_sync, OneOf{{"keep", "reset"}}, "what becomes of the workers' own momentum");
    v("warm-start-epochs", warm_start_epochs, Range{0, 1e6}, "first epochs, trained synchronously");
  }
};

class Bmuf : public PeriodicStrategy {
 public:
  Bmuf(const BmufOptions& options, const Replica& replica)
      : PeriodicStrategy(options.period, options.scaling, replica),
        options_(options),
        derives_momentum_(options.block_momentum < 0),
        warm_start_(options.warm_start_epochs, replica) {
    DeriveMomentum();
    if (options.period.sync_period == 0 && options.period.sync_frames == 0) {
      throw UsageError("method 'bmuf' needs a sync-period of at least 1: without blocks there is no block momentum");
    }
    Begin();
  }

  void Start() override {
    PeriodicStrategy::Start();
    warm_start_.Start();
    Begin();
  }
  StepOutput Step(const StepInput& input) override {
    return warm_start_.under_way() ? warm_start_.Step(input) : PeriodicStrategy::Step(input);
  }
  void AfterEpoch() override {
    const bool blocks = !warm_start_.under_way();
    warm_start_.AfterEpoch();
    if (blocks) return PeriodicStrategy::AfterEpoch();
    if (warm_start_.under_way()) return;
    PeriodicStrategy::Start();
    Begin();
  }
  void Finish() override { warm_start_.under_way() ? warm_start_.Finish() : PeriodicStrategy::Finish(); }
  bool LeaveOut() override { return !warm_start_.under_way() && PeriodicStrategy::LeaveOut(); }
  void ResetState() override {
    PeriodicStrategy::ResetState();
    warm_start_.ResetState();
    Begin();
  }
  SurvivesLosses* survival() override { return this; }
  int64_t AfterLoss(const Loss& loss) override {
    warm_start_.AfterLoss();
    DeriveMomentum();
    return PeriodicStrategy::AfterLoss(loss);
  }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    PeriodicStrategy::SaveState(writer, prefix);
    writer.Add(prefix + ".model", std::span<const float>(model_));
    writer.Add(prefix + ".momentum", std::span<const float>(momentum_));
    warm_start_.SaveState(writer, prefix + ".warm-start");
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    PeriodicStrategy::LoadState(reader, prefix);
    LoadValues(reader, prefix + ".model", model_);
    LoadValues(reader, prefix + ".momentum", momentum_);
    warm_start_.LoadState(reader, prefix + ".warm-start");
  }
  CommonState common_state() const override {
    CommonState common = PeriodicStrategy::common_state();
    if (common.tensors.empty()) return {};
    if (warm_start_.under_way()) common.optimizer = warm_start_.common_state().optimizer;
    for (const char* name : {".model", ".momentum"}) common.tensors.emplace_back(name);
    return common;
  }
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override {
    PeriodicStrategy::LoadFolded(ranks, prefix);
    warm_start_.LoadFolded(ranks, prefix + ".warm-start");
  }

  // Model and momentum; where the momentum leads, while the model is evaluated.
  size_t copy_bytes() const override {
    return PeriodicStrategy::copy_bytes() + (options_.nesterov ? 3 : 2) * model_bytes() + warm_start_.copy_bytes();
  }

  std::vector<std::string> Describe() const override {
    std::vector<std::string> lines = PeriodicStrategy::Describe();
    lines.push_back(fmt::format("block momentum {:.4g}, block learning rate {:.4g}{}", options_.block_momentum,
                                options_.block_learning_rate, options_.nesterov ? ", Nesterov" : ""));
    if (warm_start_.under_way()) {
      lines.push_back(fmt::format("the first {} epoch(s) are synchronous", options_.warm_start_epochs));
    }
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
    const double whole = options_.block_momentum;
    const double share = static_cast<double>(since_exchange()) / period();
    const double kept = std::pow(whole, share);
    const double gain = share == 1 ? 1 : (1 - kept) / ((1 - whole) * share);
    const auto eta = static_cast<float>(kept);
    const auto zeta = static_cast<float>(options_.block_learning_rate * gain);
    const auto step = static_cast<float>(share);
    const auto look_ahead = static_cast<float>(options_.nesterov ? whole : 0.0);
    const float* start = center().data();
    const auto size = static_cast<int64_t>(values.size());
    ParallelRanges(size, 1, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const auto k = static_cast<size_t>(i);
        momentum_[k] = eta * momentum_[k] + zeta * (values[k] - start[i]);
        model_[k] += step * momentum_[k];
        values[k] = model_[k] + look_ahead * momentum_[k];
      }
    });
  }

  BmufOptions options_;
  bool derives_momentum_;
  WarmStart warm_start_;
  std::vector<float> model_;     // W
  std::vector<float> momentum_;  // Δ
};

REGISTER_COMPONENT(StrategyRegistry, "bmuf", [](const Config& config, const Replica& replica) {
  return std::make_unique<Bmuf>(ReadOptions<BmufOptions>(config, kCommonStrategyKeys), replica);
});

}  // namespace
}  // namespace antiphon::parallel
