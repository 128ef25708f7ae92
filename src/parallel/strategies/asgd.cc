// Asynchronous SGD with a pool of parameter servers: each worker learns on its own copy of the model, sends what it
// changed, and fetches what all together have made of it.
//
// Exchanged: every `push-every` minibatches a worker's change (4·P bytes) goes to the shards of the model, and their
// values (4·P) come back; with server-update "momentum" or "adagrad" it is the summed gradient, which does not go with
// layers that are kept orthonormal. Shards live on the workers, which serve each other between layers or beside the
// arithmetic (server_pool.h), or, with `dedicated-servers`, on the last ranks, which do nothing else. With `overlap`
// values are asked for an exchange ahead and travel while the worker computes: nobody waits for them, and they miss the
// pushes of two exchanges instead of one. Minibatches come from one common pool, each taken once per epoch; what a
// dropped push was made from goes back. Staleness: about workers − 1 pushes for equal workers; pushes beyond
// `max-staleness` are dropped, once for all shards; with `staleness-bound` (SSP) no worker reads while another is more
// than that many pushes behind. The rate may be divided by 1 + compensation·(mean staleness), and the first epochs may
// be synchronous (`warm-start-epochs`). Determinism: follows arrival, which `arrival-log` writes down and `replay`
// follows bit for bit; on a simulated cluster always the same bits. One worker is plain training. `host-master` is the
// same with the whole model on the host's side, in rank 0's memory, and devices (ranks) that hold a copy of their own.
// Source: Dean et al., NIPS 2012; Zhang et al., ICASSP 2013 (host-master); Ho et al., NIPS 2013; algorithms reference
// 1.7, 1.9.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "parallel/server_pool.h"
#include "parallel/strategy_traits.h"
#include "parallel/warm_start.h"

namespace antiphon::parallel {
namespace {

constexpr double kStalenessDecay = 0.95;
constexpr const char* kOverlapHelp = "values are asked for an exchange ahead, and travel while the worker computes";
constexpr const char* kMaxStalenessHelp =
    "drop pushes that missed more than this many others; 0: twice the workers, with overlap four times; -1: never";

struct AsgdOptions {
  int servers = 0;
  bool dedicated_servers = false;
  bool overlap = false;
  int push_every = 3;
  int64_t max_staleness = 0;
  int64_t staleness_bound = -1;
  double compensation = 0;
  int warm_start_epochs = 0;
  std::string server_update = "sum";
  double server_momentum = 0.9;
  double server_rate_factor = 1;
  std::string arrival_log;
  std::string replay;
  template <class V>
  void Visit(V& v) {
    v("servers", servers, Range{0, 4096}, "ranks that hold a shard of the model; 0: all");
    v("dedicated-servers", dedicated_servers, "they are the last of the workers, and do nothing else");
    v("overlap", overlap, kOverlapHelp);
    v("push-every", push_every, Range{1, 1 << 20}, "minibatches of a worker between two exchanges");
    v("max-staleness", max_staleness, Range{-1, 1e9}, kMaxStalenessHelp);
    v("staleness-bound", staleness_bound, Range{-1, 1e9},
      "no worker reads while another is more than this many pushes behind; -1: no bound");
    v("compensation", compensation, Range{0, 1e3}, "divides the rate by 1 + this times the mean staleness");
    v("warm-start-epochs", warm_start_epochs, Range{0, 1e6}, "first epochs, trained synchronously");
    v("server-update", server_update, OneOf{{"sum", "momentum", "adagrad"}},
      "servers add the workers' changes, or take their gradients by a rule of their own");
    v("server-momentum", server_momentum, Range{0, 0.9999}, "of server-update momentum");
    v("server-rate-factor", server_rate_factor, Range{0, 1e6}, "multiplies the rate of the servers' own rules");
    v("arrival-log", arrival_log, "file for the order of arrivals at each rank (\".rank-N\" is appended)");
    v("replay", replay, "arrival log to follow");
  }
};

struct HostMasterOptions {
  bool overlap = false;
  int push_every = 3;
  int64_t max_staleness = 0;
  double compensation = 0;
  int warm_start_epochs = 0;
  std::string arrival_log;
  std::string replay;
  template <class V>
  void Visit(V& v) {
    v("overlap", overlap, kOverlapHelp);
    v("push-every", push_every, Range{1, 1 << 20}, "minibatches of a device between two exchanges");
    v("max-staleness", max_staleness, Range{-1, 1e9}, kMaxStalenessHelp);
    v("compensation", compensation, Range{0, 1e3}, "divides the rate by 1 + this times the mean staleness");
    v("warm-start-epochs", warm_start_epochs, Range{0, 1e6}, "first epochs, trained synchronously");
    v("arrival-log", arrival_log, "file for the order of arrivals at each rank (\".rank-N\" is appended)");
    v("replay", replay, "arrival log to follow");
  }
};

AsgdOptions ReadHostMaster(const Config& config) {
  const auto host = ReadOptions<HostMasterOptions>(config, kCommonStrategyKeys);
  AsgdOptions options;
  options.servers = 1;
  options.overlap = host.overlap;
  options.push_every = host.push_every;
  options.max_staleness = host.max_staleness;
  options.compensation = host.compensation;
  options.warm_start_epochs = host.warm_start_epochs;
  options.arrival_log = host.arrival_log;
  options.replay = host.replay;
  return options;
}

class Asgd : public Strategy, public Checkpointable, public TakesWhenFree, public SurvivesLosses {
 public:
  Asgd(const Config& config, const Replica& replica, const AsgdOptions& options)
      : Strategy(replica),
        options_(options),
        alone_(replica.comm->world_size() == 1),
        rule_(ParseServerRule(options_.server_update)),
        warm_start_(options.warm_start_epochs, replica) {
    RequirePossible(config);
    if (options_.max_staleness == 0) options_.max_staleness = (options_.overlap ? 4 : 2) * workers();
    if (rule_ != ServerRule::kSum && alone_) {
      throw UsageError("parallel.server-update: a single worker trains by its optimizer; use 'sum', or more workers");
    }
    for (size_t i = 0; i < network().num_layers(); ++i) {
      if (network().begins_range(i)) cuts_.push_back(i);
    }
    cuts_.push_back(network().num_layers());
  }

  void Start() override {
    Strategy::Start();
    if (alone_) return;
    ServerPoolOptions pool;
    pool.servers = options_.servers;
    pool.dedicated = options_.dedicated_servers;
    pool.ahead = options_.overlap;
    pool.rule = rule_;
    pool.momentum = options_.server_momentum;
    pool.rates = LayerRates();
    pool.max_staleness = options_.max_staleness;
    pool.staleness_bound = options_.staleness_bound;
    pool.log = options_.arrival_log;
    pool.replay = options_.replay;
    pool_.emplace(comm(), pool, network().values());
    warm_start_.Start();
  }

  SurvivesLosses* survival() override { return this; }
  bool survives_losses() const override { return pool_ && pool_->servers() < comm().world_size(); }
  int64_t steps_at_risk() const override { return 0; }  // its minibatches come back through the pool
  int64_t AfterLoss(const Loss& loss) override {
    warm_start_.AfterLoss();
    const int first = options_.dedicated_servers ? loss.world_size - pool_->servers() : 0;
    for (size_t i = 0; i < loss.ranks.size(); ++i) {
      const int rank = loss.ranks[i];
      const bool serves = rank >= first && rank < first + pool_->servers();
      if (!serves && rank != 0) continue;
      throw comm::PeerLost(
          fmt::format("rank {} is lost, {}", loss.first_ranks[i],
                      serves ? "which held a part of the model as a parameter server" : "the first of the workers"));
    }
    return comm().rank() == 0 ? pool_->TakeGivenBack() : 0;
  }

  // While it learns synchronously, a server has nothing else to do.
  DataShare data_share() const override {
    return warm_start_.under_way() ? Strategy::data_share() : DataShare{comm().rank(), workers()};
  }

  bool synchronous() const override { return warm_start_.under_way(); }
  TakesWhenFree* rounds() override { return warm_start_.under_way() ? nullptr : this; }
  void BeginRound(int64_t first, int64_t last) override {
    if (alone_) return ledger_.BeginRound(first, last);
    Exchanging([&] {
      pool_->SetModel(network().values());
      comm().Together([this] { comm().Barrier(); });
      pool_->BeginRound(first, last, network().values());
    });
    network().MarkChanged();
    if (rule_ != ServerRule::kSum) gradient_.resize(network().num_values(), 0.0f);
  }
  std::optional<int64_t> Take() override {
    if (alone_) return ledger_.Take(0);
    std::optional<int64_t> minibatch;
    Exchanging([&] { minibatch = pool_->Take(); });
    return minibatch;
  }
  void StopRound() override { alone_ ? ledger_.Stop() : pool_->Stop(); }

  std::pair<int64_t, int64_t> EndRound() override {
    if (alone_) return {ledger_.next(), 0};
    std::pair<int64_t, int64_t> end;
    Exchanging([&] {
      if (!taken_.empty()) Exchange();
      end = pool_->EndRound();
      pool_->Collect(network().values());
    });
    network().MarkChanged();
    pool_->WriteLog();
    return end;
  }

  StepOutput Step(const StepInput& input) override {
    if (warm_start_.under_way()) return warm_start_.Step(input);
    if (alone_) {
      const StepOutput output = Strategy::Step(input);
      if (input.minibatch >= 0) ledger_.Confirm(0, {&input.minibatch, 1});
      return output;
    }
    StepOutput output;
    rate_ = input.learning_rate / (1 + options_.compensation * mean_staleness_);
    output.loss = ForwardAndBackward(input, output.report);
    taken_.push_back(input.minibatch);
    if (std::ssize(taken_) >= options_.push_every) Exchanging([this] { staleness_ = Exchange(); });
    output.staleness = staleness_;
    output.communication_seconds = TakeCommunication();
    return output;
  }

  void AfterEpoch() override {
    warm_start_.AfterEpoch();
    if (alone_) return;
    const ServerStatistics& s = pool_->statistics();
    const std::array mine = {static_cast<double>(s.pushes), static_cast<double>(s.stale),
                             static_cast<double>(s.dropped)};
    std::array<double, 3> sums{};
    comm().Together([&] {
      sums = mine;
      comm().AllReduce(std::span<double>(sums));
    });
    if (comm().rank() != 0 || sums[0] == 0) return;
    log::Info("asgd: {} pushes to shards, mean staleness {:.2f}, {} dropped", sums[0], sums[1] / sums[0], sums[2]);
  }
  void Finish() override { warm_start_.Finish(); }

  void ResetState() override {
    taken_.clear();
    if (pool_) pool_->ResetState();
    warm_start_.ResetState();
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
  }

  Checkpointable* state() override { return this; }
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const override {
    writer.Add(prefix + ".mean-staleness", std::span<const double>(&mean_staleness_, 1));
    if (pool_) pool_->SaveState(writer, prefix);
    warm_start_.SaveState(writer, prefix + ".warm-start");
  }

  void LoadState(const SafetensorsReader& reader, const std::string& prefix) override {
    mean_staleness_ = reader.ReadDoubles(prefix + ".mean-staleness").at(0);
    pool_ ? pool_->LoadState(reader, prefix) : ledger_.LoadFolded({&reader, 1}, prefix);
    warm_start_.LoadState(reader, prefix + ".warm-start");
  }

  void LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) override {
    mean_staleness_ = ranks[0].ReadDoubles(prefix + ".mean-staleness").at(0);
    // Shards were cut otherwise; what the servers remembered of gradients begins anew.
    pool_ ? pool_->LoadLedger(ranks, prefix) : ledger_.LoadFolded(ranks, prefix);
    warm_start_.LoadFolded(ranks, prefix + ".warm-start");
  }

  // The values pulled last, pushes and answers under way, the sum of gradients for a server's rule, and a shard.
  size_t copy_bytes() const override {
    if (alone_) return 0;
    const size_t model = network().num_values() * sizeof(float);
    const size_t own_rule = rule_ != ServerRule::kSum ? 1 : 0;
    const bool learns = comm().rank() < workers();
    const bool serves = options_.dedicated_servers ? !learns : comm().rank() < num_servers();
    const size_t models = learns ? 2 + own_rule + (options_.overlap ? 1 : 0) : 0;
    const size_t shards = serves ? 1 + own_rule : 0;
    return models * model + shards * model / static_cast<size_t>(num_servers()) + warm_start_.copy_bytes();
  }

  std::vector<std::string> Describe() const override {
    if (alone_) return {"asgd: one worker, plain training"};
    std::vector<std::string> lines = {fmt::format(
        "asgd: {} workers, {} shards on {}, exchange every {} minibatch(es){}, pushes that missed more than {} "
        "others are dropped",
        workers(), num_servers(), options_.dedicated_servers ? "ranks of their own" : "workers", options_.push_every,
        options_.overlap ? ", values asked for one exchange ahead" : "",
        options_.max_staleness < 0 ? std::string("any number of") : std::to_string(options_.max_staleness))};
    if (options_.staleness_bound >= 0) {
      lines.push_back(fmt::format("reads wait for workers more than {} pushes behind", options_.staleness_bound));
    }
    return lines;
  }

 private:
  int num_servers() const { return options_.servers == 0 ? comm().world_size() : options_.servers; }
  /// That take minibatches.
  int workers() const { return comm().world_size() - (options_.dedicated_servers ? num_servers() : 0); }

  void RequirePossible(const Config& config) const {
    if (options_.servers > comm().world_size()) {
      Throw<UsageError>("{}: parallel.servers is {}, but there are {} workers, who are the servers",
                        config.Where("servers"), options_.servers, comm().world_size());
    }
    if (options_.dedicated_servers && workers() < 1) {
      Throw<UsageError>(
          "{}: parallel.dedicated-servers takes the last parallel.servers = {} of {} workers away from learning: name "
          "at least 1, and fewer than there are workers",
          config.Where("dedicated-servers"), options_.servers, comm().world_size());
    }
    if (options_.overlap && options_.staleness_bound >= 0) {
      Throw<UsageError>(
          "{}: parallel.overlap reads ahead, parallel.staleness-bound = {} lets nobody do so: leave one of the two out",
          config.Where("overlap"), options_.staleness_bound);
    }
    for (size_t i = 0; i < network().num_layers() && rule_ != ServerRule::kSum; ++i) {
      if (network().layer(i).constraint() == nullptr) continue;
      Throw<UsageError>(
          "{}: parallel.server-update = '{}' sends servers gradients alone, so that nobody keeps layer '{}' or what it "
          "is made of orthonormal: take 'sum', or a network without `orthonormal`",
          config.Where("server-update"), options_.server_update, network().layer_name(i));
    }
  }

  // For rules that do not go through an optimiser. What lies between parameters has no gradient.
  std::vector<RateRange> LayerRates() const {
    std::vector<RateRange> rates;
    for (const nn::Parameter* p : network().parameters()) {
      const float factor = p->learning_rate_factor;
      if (rates.empty() || rates.back().factor != factor) rates.push_back({.end = 0, .factor = factor});
      rates.back().end = static_cast<size_t>(p->offset + p->value.size());
    }
    if (!rates.empty()) rates.back().end = network().num_values();
    return rates;
  }

  void Serve() {
    Exchanging([this] { pool_->Serve(); });
  }

  // In pieces, between which the others are served.
  nn::LossResult ForwardAndBackward(const StepInput& input, optim::StepReport& report) {
    const int64_t frames = input.features.rows();
    ConstMatrixView below = input.features;
    MatrixView y;
    for (size_t i = 0; i + 1 < cuts_.size(); ++i) {
      y = network().Forward(input.context, below, {cuts_[i], cuts_[i + 1]}, workspace());
      below = y;
      CountForward(cuts_[i], cuts_[i + 1], frames);
      Serve();
    }
    const nn::LossResult loss = nn::SoftmaxCrossEntropy(y, input.targets, y);
    nn::DenseGradientSink dense(gradient_);
    const bool own_step = rule_ == ServerRule::kSum;
    if (own_step) optimizer().BeginStep(rate_);
    nn::GradientSink& sink = own_step ? static_cast<nn::GradientSink&>(optimizer()) : dense;
    const nn::ExecContext context = nn::WithLoss(input.context, input.targets, loss);
    network().Backward(context, y, workspace(), sink, false, [&](size_t layer) {
      CountBackward(layer, frames);
      Serve();
    });
    if (own_step) report = optimizer().EndStep();
    return loss;
  }

  // Pushes what was learned since the last pull, unless it is too stale, and pulls. Returns the push's staleness.
  double Exchange() {
    const Verdict verdict = pool_->Judge(taken_);
    taken_.clear();
    const std::span<float> model = network().values();
    if (verdict.apply && rule_ != ServerRule::kSum) {
      pool_->Push(gradient_, rate_ * options_.server_rate_factor);
    } else if (verdict.apply && !options_.overlap) {
      pool_->PushChange(model);
    }
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    options_.overlap ? pool_->PullAhead(model, verdict.apply) : pool_->Pull(model);
    network().MarkChanged();
    const auto staleness = static_cast<double>(verdict.staleness);
    mean_staleness_ = kStalenessDecay * mean_staleness_ + (1 - kStalenessDecay) * staleness;
    return staleness;
  }

  AsgdOptions options_;
  const bool alone_;  // from the start; one left alone by losses still uses the pool, whose ledger has what came back
  ServerRule rule_;
  std::vector<size_t> cuts_;  // where pieces of the network begin, and the end
  WarmStart warm_start_;
  std::optional<ServerPool> pool_;
  MinibatchLedger ledger_{1};    // of a single worker
  std::vector<int64_t> taken_;   // since the last exchange
  std::vector<float> gradient_;  // since then, where the servers have a rule of their own
  double rate_ = 0;
  double mean_staleness_ = 0;
  double staleness_ = 0;  // of the last push
};

REGISTER_COMPONENT(StrategyRegistry, "asgd", [](const Config& config, const Replica& replica) {
  return std::make_unique<Asgd>(config, replica, ReadOptions<AsgdOptions>(config, kCommonStrategyKeys));
});
REGISTER_COMPONENT(StrategyRegistry, "host-master", [](const Config& config, const Replica& replica) {
  return std::make_unique<Asgd>(config, replica, ReadHostMaster(config));
});
REGISTER_COMPONENT(StrategyTraitsRegistry, "asgd", Traits({.takes_when_free = true}));
REGISTER_COMPONENT(StrategyTraitsRegistry, "host-master", Traits({.takes_when_free = true}));

}  // namespace
}  // namespace antiphon::parallel
