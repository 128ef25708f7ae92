// Asynchronous SGD whose slaves are groups of ranks: each rank of a group holds the rows of every affine layer that are
// its own (striped_network.h), and exchanges only those with the servers of the same rows.
//
// Exchanged: within a slave as striped_network.h says, per minibatch; with the servers every `push-every` minibatches a
// rank's change and the current values, 4·P/stripes bytes each way. The same stripe's ranks of all slaves are each
// other's servers (server_pool.h). Layers that all ranks of a slave hold alike (recurrent, convolutional …) are
// exchanged by its first rank, which tells the others. The first rank of a slave takes minibatches from the common pool
// and asks whether a push is fresh enough; the others follow, so that a push counts as a whole or not at all. Recurrent
// states begin anew with every chunk if there are several slaves (data.carry-state = false). Staleness, determinism: as
// asgd.cc. With `sparse-links` a unit sees the units of its own rank and so many others; the other weights stay 0.
// Source: Dean et al., NIPS 2012; algorithms reference 1.7.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/options.h"
#include "parallel/server_pool.h"
#include "parallel/strategy.h"
#include "parallel/strategy_traits.h"
#include "parallel/striped_network.h"
#include "parallel/sub_communicator.h"

namespace antiphon::parallel {
namespace {

constexpr int kSlaveGroup = 3;

struct AsgdGroupsOptions : StripesOptions {
  int push_every = 1;
  int64_t max_staleness = 0;
  std::string arrival_log;
  std::string replay;
  template <class V>
  void Visit(V& v) {
    StripesOptions::Visit(v);
    v("push-every", push_every, Range{1, 1 << 20}, "minibatches of a slave between two exchanges");
    v("max-staleness", max_staleness, Range{-1, 1e9},
      "drop pushes that missed more than this many others; 0: twice the slaves, -1: never");
    v("arrival-log", arrival_log, "file for the order of arrivals at each rank (\".stripe-S.rank-N\" is appended)");
    v("replay", replay, "arrival log to follow");
  }
};

class AsgdGroups : public Strategy, public Checkpointable, public TakesWhenFree, public DividesTheModel {
 public:
  AsgdGroups(const Config& config, const Replica& replica)
      : Strategy(replica), options_(ReadOptions<AsgdGroupsOptions>(config, kCommonStrategyKeys)) {
    options_.stripes = StripesOf(config, comm().world_size());
    if (options_.max_staleness == 0) options_.max_staleness = 2 * slaves();
    if (alone()) return;
    const int stripe = comm().rank() % options_.stripes;
    group_.emplace(comm(), RanksFrom(comm().rank() - stripe, 1, options_.stripes), kSlaveGroup);
    twins_.emplace(comm(), RanksFrom(stripe, options_.stripes, slaves()), stripe);
    if (options_.stripes == 1) return;
    striped_.emplace(network(), RequireParts(), *group_, options_);
    if (!leads()) FindOwn();
  }

  DataShare data_share() const override { return {comm().rank() / options_.stripes, slaves(), options_.stripes}; }
  bool synchronous() const override { return false; }
  TakesWhenFree* rounds() override { return this; }

  void Start() override {
    if (alone()) return;
    if (striped_) striped_->ApplyMasks();
    ServerPoolOptions pool;
    pool.max_staleness = options_.max_staleness;
    const auto of_stripe = [&](const std::string& path) {
      return path.empty() ? path : fmt::format("{}.stripe-{}", path, group_->index());
    };
    pool.log = of_stripe(options_.arrival_log);
    pool.replay = of_stripe(options_.replay);
    pool_.emplace(*twins_, pool, Exchanged());
    group_->ServeWhileWaiting([this] { pool_->Serve(); });
  }

  void BeginRound(int64_t first, int64_t last) override {
    if (alone()) return ledger_.BeginRound(first, last);
    Exchanging([&] {
      pool_->SetModel(Exchanged());
      comm().Barrier();
      pool_->BeginRound(first, leads() ? last : first, Room());
      TakeExchanged();
    });
  }

  std::optional<int64_t> Take() override {
    if (alone()) return ledger_.Take(0);
    int64_t minibatch = 0;
    Exchanging([&] {
      if (leads()) minibatch = pool_->Take().value_or(-1);
      group_->Broadcast(0, std::as_writable_bytes(std::span(&minibatch, 1)));
    });
    return minibatch < 0 ? std::nullopt : std::optional<int64_t>(minibatch);
  }

  void StopRound() override {
    if (alone()) return ledger_.Stop();
    if (leads()) pool_->Stop();
  }

  std::pair<int64_t, int64_t> EndRound() override {
    if (alone()) return {ledger_.next(), 0};
    int64_t numbers[] = {0, 0};
    Exchanging([&] {
      if (!taken_.empty()) Exchange();
      std::tie(numbers[0], numbers[1]) = pool_->EndRound();
      comm().Broadcast(0, std::as_writable_bytes(std::span(numbers)));
      pool_->Collect(Room());
      TakeExchanged();
    });
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
    group_->TakeSeconds();  // those of Take and of evaluations
    MatrixView logits;
    if (striped_) {
      output.loss = striped_->Forward(input.context, input.features, input.targets, workspace());
    } else {
      logits = network().Forward(input.context, input.features, workspace());
      CountForward(input.features.rows());
      output.loss = nn::SoftmaxCrossEntropy(logits, input.targets, logits);
    }
    optimizer().BeginStep(input.learning_rate);
    const nn::ExecContext context = nn::WithLoss(input.context, input.targets, output.loss);
    if (striped_) {
      striped_->Backward(context, workspace(), optimizer(), optimizer());
    } else {
      network().Backward(context, logits, workspace(), optimizer(), false,
                         [&](size_t layer) { CountBackward(layer, input.features.rows()); });
    }
    output.report = optimizer().EndStep();
    if (striped_) striped_->AfterUpdate(output.report.max_change_scale);
    AddCommunication(group_->TakeSeconds());
    Exchanging([&] {
      pool_->Serve();
      taken_.push_back(input.minibatch);
      if (std::ssize(taken_) >= options_.push_every) staleness_ = Exchange();
    });
    group_->TakeSeconds();  // which are among them
    output.staleness = staleness_;
    output.communication_seconds = TakeCommunication();
    return output;
  }

  DividesTheModel* division() override { return this; }
  bool divides_streams() const override { return options_.data_parallel_layers != 0; }
  MatrixView Logits(const nn::ExecContext& context, ConstMatrixView x, nn::Workspace& ws) override {
    return striped_ ? striped_->Logits(context, x, ws) : network().Forward(context, x, ws);
  }
  void MeanOfParts(std::span<float> values) override {
    if (alone() || slaves() == 1) return;
    twins_->AllReduce(values);
    for (float& v : values) v /= static_cast<float>(slaves());
  }

  void ResetState() override { taken_.clear(); }

  Checkpointable* state() override { return this; }
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    if (!alone()) pool_->SaveState(writer, prefix);
  }
  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    if (!alone()) pool_->LoadState(reader, prefix);
  }
  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override {
    // Minibatches are the leaders' matter.
    alone() ? ledger_.LoadFolded(ranks, prefix) : pool_->LoadLedger(leads() ? ranks : ranks.first(0), prefix);
    if (striped_) striped_->ApplyMasks();
  }

  // The values pulled last, pushes and answers under way, and a shard.
  size_t copy_bytes() const override {
    if (alone()) return 0;
    const size_t part = network().num_values() * sizeof(float);
    return 2 * part + part / static_cast<size_t>(slaves()) + own_values_.size() * sizeof(float) +
           (striped_ ? striped_->copy_bytes() : 0);
  }

  std::vector<std::string> Describe() const override {
    if (alone()) return {"asgd-groups: one worker, plain training"};
    std::vector<std::string> lines = {fmt::format(
        "asgd-groups: {} slave(s) of {} ranks, exchange every {} minibatch(es), {} of {} parameters on this rank",
        slaves(), options_.stripes, options_.push_every, network().num_parameters(), network().num_whole_parameters())};
    if (striped_ && striped_->front()) lines.push_back(striped_->front()->Describe());
    return lines;
  }

 private:
  bool alone() const { return comm().world_size() == 1; }
  int slaves() const { return comm().world_size() / options_.stripes; }
  bool leads() const { return group_->index() == 0; }

  // Of a rank that does not lead a slave: the values of divided layers.
  void FindOwn() {
    if (striped_->shared_values().empty()) return;
    size_t size = 0;
    for (size_t i = 0; i < network().num_layers(); ++i) {
      if (!striped_->divided(i)) continue;
      for (const nn::Parameter* p : network().layer(i).parameters()) {
        own_.push_back(
            network().values().subspan(static_cast<size_t>(p->offset), static_cast<size_t>(p->value.size())));
        size += own_.back().size();
      }
    }
    own_values_.resize(size);
  }

  // What this rank and its servers exchange, as it is now.
  std::span<const float> Exchanged() {
    float* to = own_values_.data();
    for (const std::span<float> values : own_) to = std::copy(values.begin(), values.end(), to);
    return Room();
  }
  // Where it is received.
  std::span<float> Room() { return own_.empty() ? network().values() : std::span<float>(own_values_); }
  // To be called when it was received.
  void TakeExchanged() {
    const float* from = own_values_.data();
    for (const std::span<float> values : own_) {
      std::copy_n(from, values.size(), values.data());
      from += values.size();
    }
    if (striped_ && !striped_->shared_values().empty()) striped_->BroadcastShared();
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
    if (verdict[0] != 0) pool_->PushChange(Exchanged());
    pool_->Pull(Room());
    TakeExchanged();
    return static_cast<double>(verdict[1]);
  }

  AsgdGroupsOptions options_;
  std::optional<RankGroup> group_;        // this slave
  std::optional<SubCommunicator> twins_;  // the ranks with the same stripe in all slaves
  std::optional<StripedNetwork> striped_;
  std::optional<ServerPool> pool_;
  MinibatchLedger ledger_{1};   // of a single worker
  std::vector<int64_t> taken_;  // since the last exchange
  double staleness_ = 0;        // of the last push
  // With layers held by all, of ranks that do not lead: what they exchange, and its copy without the rest.
  std::vector<std::span<float>> own_;
  std::vector<float> own_values_;
};

REGISTER_COMPONENT(StrategyRegistry, "asgd-groups", [](const Config& config, const Replica& replica) {
  return std::make_unique<AsgdGroups>(config, replica);
});
REGISTER_COMPONENT(DivisionRegistry, "asgd-groups", DivideByOutputs);
REGISTER_COMPONENT(StrategyTraitsRegistry, "asgd-groups", Traits({.takes_when_free = true}));

}  // namespace
}  // namespace antiphon::parallel
