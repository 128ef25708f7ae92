// Asynchronous SGD whose slaves are groups of ranks: each rank of a group holds the rows of every affine layer that are
// its own (striped_network.h), and exchanges only those with the servers of the same rows.
//
// Exchanged: within a slave as striped_network.h says, per minibatch; with the servers every `push-every` minibatches a
// rank's change and the current values, 4·P/stripes bytes each way. The same stripe's ranks of all slaves are each
// other's servers (server_pool.h). The first rank of a slave takes minibatches from the common pool and asks whether a
// push is fresh enough; the others follow, so that a push counts as a whole or not at all.
// Staleness, determinism: as asgd.cc. With `sparse-links` a unit sees the units of its own rank and so many others; the
// other weights stay 0. Source: Dean et al., NIPS 2012; algorithms reference 1.7.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/options.h"
#include "parallel/server_pool.h"
#include "parallel/strategy.h"
#include "parallel/striped_network.h"
#include "parallel/sub_communicator.h"

namespace antiphon::parallel {
namespace {

constexpr uint64_t kLinkSeed = 0x6c696e6b;
constexpr int kSlaveGroup = 3;

struct AsgdGroupsOptions {
  int stripes = 0;
  int sparse_links = -1;
  int push_every = 1;
  int64_t max_staleness = 0;
  std::string arrival_log;
  std::string replay;
  template <class V>
  void Visit(V& v) {
    v("stripes", stripes, Range{0, 4096}, "ranks of a slave; 0: all workers");
    v("sparse-links", sparse_links, Range{-1, 1 << 20},
      "units of each other rank that a unit sees; -1: all. Weights of the other links stay 0");
    v("push-every", push_every, Range{1, 1 << 20}, "minibatches of a slave between two exchanges");
    v("max-staleness", max_staleness, Range{-1, 1e9},
      "drop pushes that missed more than this many others; 0: twice the slaves, -1: never");
    v("arrival-log", arrival_log, "file for the order of arrivals at each rank (\".stripe-S.rank-N\" is appended)");
    v("replay", replay, "arrival log to follow");
  }
};

std::vector<int> Ranks(int first, int step, int count) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * step);
  return ranks;
}

class AsgdGroups : public Strategy {
 public:
  AsgdGroups(const Config& config, const Replica& replica)
      : Strategy(replica), options_(ReadOptions<AsgdGroupsOptions>(config, kCommonStrategyKeys)) {
    const int workers = comm().world_size();
    if (options_.stripes == 0) options_.stripes = workers;
    if (workers % options_.stripes != 0) {
      Throw<UsageError>("{}: {} workers cannot be divided into slaves of {} ranks", config.Where("stripes"), workers,
                        options_.stripes);
    }
    if (options_.max_staleness == 0) options_.max_staleness = 2 * slaves();
    if (alone()) return;
    const int stripe = comm().rank() % options_.stripes;
    group_.emplace(comm(), Ranks(comm().rank() - stripe, 1, options_.stripes), kSlaveGroup);
    twins_.emplace(comm(), Ranks(stripe, options_.stripes, slaves()), stripe);
    striped_.emplace(network(), *group_, replica.optimizer_config, options_.sparse_links, kLinkSeed);
    RequireStripes();
  }

  DataShare data_share() const override { return {comm().rank() / options_.stripes, slaves(), options_.stripes}; }
  bool synchronous() const override { return false; }
  bool takes_when_free() const override { return true; }

  void Start() override {
    if (alone()) return;
    striped_->ApplyMasks();
    Collect();
    ServerPoolOptions pool;
    pool.max_staleness = options_.max_staleness;
    const auto of_stripe = [&](const std::string& path) {
      return path.empty() ? path : fmt::format("{}.stripe-{}", path, group_->index());
    };
    pool.log = of_stripe(options_.arrival_log);
    pool.replay = of_stripe(options_.replay);
    Gather(values_);
    pool_.emplace(*twins_, pool, values_);
    group_->ServeWhileWaiting([this] { pool_->Serve(); });
  }

  void BeginRound(int64_t first, int64_t last) override {
    if (alone()) return ledger_.BeginRound(first, last);
    Gather(values_);
    pool_->SetModel(values_);
    comm().Barrier();
    pool_->BeginRound(first, leads() ? last : first);
    pulled_ = values_;
  }

  std::optional<int64_t> Take() override {
    if (alone()) return ledger_.Take(0);
    int64_t minibatch = leads() ? pool_->Take().value_or(-1) : 0;
    group_->Broadcast(0, std::as_writable_bytes(std::span(&minibatch, 1)));
    return minibatch < 0 ? std::nullopt : std::optional<int64_t>(minibatch);
  }

  void StopRound() override {
    if (alone()) return ledger_.Stop();
    if (leads()) pool_->Stop();
  }

  std::pair<int64_t, int64_t> EndRound() override {
    if (alone()) return {ledger_.next(), 0};
    if (!taken_.empty()) Exchange();
    const auto end = pool_->EndRound();
    int64_t numbers[] = {end.first, end.second};
    comm().Broadcast(0, std::as_writable_bytes(std::span(numbers)));
    pool_->Collect(values_);
    Scatter(values_);
    Collect();
    pool_->WriteLog();
    return {numbers[0], numbers[1]};
  }

  StepOutput Step(const StepInput& input) override {
    if (alone()) {
      const StepOutput output = Strategy::Step(input);
      if (input.minibatch >= 0) ledger_.Confirm(0, {&input.minibatch, 1});
      return output;
    }
    StepOutput output;
    const double waited = pool_->statistics().wait_seconds;
    const MatrixView logits = striped_->Forward(input.context, input.features, workspace());
    output.loss = nn::SoftmaxCrossEntropy(logits, input.targets, logits);
    for (size_t i = 0; i < striped_->num_stripes(); ++i) striped_->stripe(i).optimizer().BeginStep(input.learning_rate);
    optimizer().BeginStep(input.learning_rate);
    striped_->Backward(
        input.context, logits, workspace(),
        [this](size_t i) -> nn::GradientSink& { return striped_->stripe(i).optimizer(); }, optimizer());
    output.report = optimizer().EndStep();
    for (size_t i = 0; i < striped_->num_stripes(); ++i) {
      const optim::StepReport part = striped_->stripe(i).optimizer().EndStep();
      output.report.max_change_scale = std::min(output.report.max_change_scale, part.max_change_scale);
    }
    striped_->ApplyMasks();
    pool_->Serve();
    taken_.push_back(input.minibatch);
    if (std::ssize(taken_) >= options_.push_every) staleness_ = Exchange();
    output.staleness = staleness_;
    output.communication_seconds = pool_->statistics().wait_seconds - waited;
    return output;
  }

  void Complete(std::span<float> values) override {
    if (!alone() && !values.empty()) striped_->Share(values);
  }

  void ResetState() override {
    taken_.clear();
    if (alone()) return;
    for (size_t i = 0; i < striped_->num_stripes(); ++i) {
      striped_->stripe(i).optimizer().ResetState();
      striped_->stripe(i).network().MarkChanged();
    }
  }

  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    if (alone()) return;
    pool_->SaveState(writer, prefix);
    for (size_t i = 0; i < stripes_count(); ++i) {
      striped_->stripe(i).optimizer().SaveState(writer, fmt::format("{}.stripe.{}", prefix, i));
    }
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    if (alone()) return;
    pool_->LoadState(reader, prefix);
    for (size_t i = 0; i < stripes_count(); ++i) {
      striped_->stripe(i).optimizer().LoadState(reader, fmt::format("{}.stripe.{}", prefix, i));
      striped_->stripe(i).network().MarkChanged();
    }
  }
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override {
    // Momenta belong to the stripes of then.
    if (pool_ && ranks.size() > 1) pool_->LoadLedger(ranks[0], prefix);
    optimizer().ResetState();
  }

  std::vector<std::string> Describe() const override {
    if (alone()) return {"asgd-groups: one worker, plain training"};
    return {fmt::format(
        "asgd-groups: {} slave(s) of {} ranks, exchange every {} minibatch(es), {} of {} parameters on "
        "this rank",
        slaves(), options_.stripes, options_.push_every, striped_->num_own_parameters(), network().num_parameters())};
  }

 private:
  bool alone() const { return comm().world_size() == 1; }
  int slaves() const { return comm().world_size() / options_.stripes; }
  bool leads() const { return group_->index() == 0; }
  size_t stripes_count() const { return striped_->num_stripes(); }

  void RequireStripes() const {
    int64_t own = 0;
    for (size_t i = 0; i < network().num_layers(); ++i) {
      const auto parameters = network().layer(i).parameters();
      if (!parameters.empty() && !striped_->is_striped(i)) {
        Throw<UsageError>(
            "layer '{}' has parameters, but cannot be divided over {} ranks: asgd-groups needs networks "
            "whose parameters are those of affine layers with at least as many outputs",
            network().layer_name(i), options_.stripes);
      }
      own += std::ssize(parameters);
    }
    if (own == 0) throw UsageError("the network has no layer that learns");
  }

  // The rank's rows of all layers, one behind the other.
  template <class F>
  void ForParts(F&& f) {
    size_t at = 0;
    for (size_t i = 0; i < stripes_count(); ++i) {
      for (nn::Parameter* p : striped_->stripe(i).network().parameters()) {
        f(*p, at);
        at += static_cast<size_t>(p->value.size());
      }
    }
  }
  void Gather(std::vector<float>& values) {
    values.resize(static_cast<size_t>(striped_->num_own_parameters()));
    ForParts([&](nn::Parameter& p, size_t at) { std::copy_n(p.value.data(), p.value.size(), values.data() + at); });
  }
  void Scatter(const std::vector<float>& values) {
    ForParts([&](nn::Parameter& p, size_t at) {
      std::copy_n(values.data() + at, p.value.size(), p.value.data());
      p.MarkChanged();
    });
  }
  // Every rank gets the whole model.
  void Collect() {
    striped_->Share(network().values());
    network().MarkChanged();
  }

  double Exchange() {
    int64_t verdict[] = {1, 0};
    if (leads()) {
      const Verdict found = pool_->Judge(taken_);
      verdict[0] = found.apply ? 1 : 0;
      verdict[1] = found.staleness;
    }
    group_->Broadcast(0, std::as_writable_bytes(std::span(verdict)));
    taken_.clear();
    if (verdict[0] != 0) {
      Gather(values_);
      for (size_t i = 0; i < values_.size(); ++i) pulled_[i] = values_[i] - pulled_[i];
      pool_->Push(pulled_, 0);
    }
    pool_->Pull(pulled_);
    Scatter(pulled_);
    return static_cast<double>(verdict[1]);
  }

  AsgdGroupsOptions options_;
  std::optional<RankGroup> group_;        // this slave
  std::optional<SubCommunicator> twins_;  // the ranks with the same stripe in all slaves
  std::optional<StripedNetwork> striped_;
  std::optional<ServerPool> pool_;
  MinibatchLedger ledger_{1};   // of a single worker
  std::vector<int64_t> taken_;  // since the last exchange
  std::vector<float> pulled_;
  std::vector<float> values_;
  double staleness_ = 0;  // of the last push
};

REGISTER_COMPONENT(StrategyRegistry, "asgd-groups", [](const Config& config, const Replica& replica) {
  return std::make_unique<AsgdGroups>(config, replica);
});

}  // namespace
}  // namespace antiphon::parallel
