#include "comm/simulated_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>

#include "base/check.h"
#include "base/error.h"
#include "comm/rank_threads.h"
#include "comm/simulated_state.h"

namespace antiphon::comm {
namespace {

constexpr double kPollSeconds = 1e-6;
constexpr double kLongestPollSeconds = 1e-3;
constexpr double kGetRequestBytes = 64;

using State = SimulatedWorld::State;
using Lock = std::unique_lock<std::mutex>;

class SimulatedCommunicator : public Communicator, public SimulatedTime, public LossTolerance {
 public:
  SimulatedCommunicator(std::shared_ptr<State> state, int rank)
      : state_(std::move(state)), rank_(rank), me_(state_->at(rank)), waited_(state_->ranks.size(), 0.0) {
    const std::lock_guard lock(state_->mutex);
    me_.connected = true;
  }
  ~SimulatedCommunicator() override {
    const std::lock_guard lock(state_->mutex);
    if (!me_.ended) state_->End(rank_, false);
    if (me_.has_turn) --state_->with_turn;
    me_.has_turn = false;
    state_->PassTurn();
  }

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(state_->ranks.size()); }
  int Node(int rank) const override { return state_->links.Node(rank); }
  std::vector<double> waited_seconds() const override { return waited_; }

  void Send(int destination, int tag, std::span<const std::byte> bytes) override {
    CHECK(destination >= 0 && destination < world_size()) << destination;
    Lock lock(state_->mutex);
    const std::string operation = fmt::format("sending to rank {}", destination);
    // Collectives bring order among ranks, so that what they accumulated before must have taken effect.
    const double begin = tag >= kFirstInternalTag ? std::max(me_.clock, me_.accumulated_until) : me_.clock;
    WaitUntil(lock, begin + SendSeconds(bytes.size()), operation);
    if (!me_.HasDealtWith(destination)) ThrowIfLost(destination, operation);
    if (destination != rank_) CountSent(bytes.size());
    Advance(state_->links.message_seconds());
    const double arrival = Deliver(rank_, destination, static_cast<double>(bytes.size()));
    SimulatedRank& receiver = state_->at(destination);
    if (receiver.ended) return;
    SimulatedMessage message{rank_, tag, arrival, {bytes.begin(), bytes.end()}};
    auto& box = receiver.mailbox;
    box.insert(std::upper_bound(box.begin(), box.end(), arrival,
                                [](double time, const SimulatedMessage& other) { return time < other.arrival; }),
               std::move(message));
    if (receiver.receiving && receiver.tag == tag && (receiver.source == kAnySource || receiver.source == rank_)) {
      receiver.wake = std::min(receiver.wake, std::max(receiver.clock, arrival));
    }
  }

  Message Receive(int source, int tag) override {
    Lock lock(state_->mutex);
    const std::string operation =
        source == kAnySource ? "receiving from any rank" : fmt::format("receiving from rank {}", source);
    const double begin = me_.clock;
    const double deadline = begin + deadline_seconds();
    double wake = deadline;
    if (const auto found = me_.Find(source, tag); found != me_.mailbox.end()) {
      wake = std::min(wake, found->arrival);
    } else if (state_->LossStops(me_, source)) {
      wake = me_.clock;
    }
    me_.receiving = true;
    me_.source = source;
    me_.tag = tag;
    WaitUntil(lock, std::max(me_.clock, wake), operation);
    const auto found = me_.Find(source, tag);
    if (found != me_.mailbox.end() && found->arrival <= me_.clock) {
      Message message{found->source, std::move(found->bytes)};
      me_.mailbox.erase(found);
      waited_[static_cast<size_t>(message.source)] += me_.clock - begin;
      return message;
    }
    ThrowIfLost(source, operation);
    Throw<PeerError>("{}: no message within {} s", Describe(operation), deadline_seconds());
  }

  bool Poll(int source, int tag) override {
    Lock lock(state_->mutex);
    const int idle_polls = me_.idle_polls;
    WaitUntil(lock, me_.clock, "looking for messages");
    const auto found = me_.Find(source, tag);
    if (found != me_.mailbox.end() && found->arrival <= me_.clock) return true;
    // Waiting by polling must come to an end, and soon.
    Advance(std::min(kLongestPollSeconds, std::ldexp(kPollSeconds, std::min(idle_polls, 30))));
    me_.idle_polls = idle_polls + 1;
    return false;
  }

  void OpenWindow(int id, std::span<float> memory) override {
    {
      Lock lock(state_->mutex);
      WaitUntil(lock, me_.clock, "opening a window");
      state_->windows[{rank_, id}] = memory;
    }
    Barrier();
  }
  void CloseWindow(int id) override {
    Barrier();
    Lock lock(state_->mutex);
    WaitUntil(lock, me_.clock, "closing a window");
    state_->windows.erase({rank_, id});
  }
  void LeaveBehind(std::vector<float> memory) override {
    const std::lock_guard lock(state_->mutex);
    state_->left_behind.push_back(std::move(memory));
  }

  void Accumulate(int target, int id, size_t offset, float scale, std::span<const float> values) override {
    Lock lock(state_->mutex);
    WaitUntil(lock, me_.clock + SendSeconds(values.size_bytes()), OneSided(target));
    if (!me_.HasDealtWith(target)) ThrowIfLost(target, OneSided(target));
    if (target != rank_) CountSent(values.size_bytes());
    Advance(state_->links.message_seconds());
    const auto bytes = static_cast<double>(values.size_bytes());
    const double arrival = Deliver(rank_, target, bytes);
    SimulatedRank& receiver = state_->at(target);
    if (receiver.lost) return;
    CheckWindow(target, id, offset, values.size());
    receiver.memory_busy_until = std::max(receiver.memory_busy_until, arrival) + state_->hosts.AccumulateSeconds(bytes);
    me_.accumulated_until = std::max(me_.accumulated_until, receiver.memory_busy_until);
    state_->accumulations.push(
        {receiver.memory_busy_until, state_->issued++, target, id, offset, scale, {values.begin(), values.end()}});
  }

  void Get(int target, int id, size_t offset, std::span<float> values) override {
    Lock lock(state_->mutex);
    WaitUntil(lock, me_.clock, OneSided(target));
    Advance(state_->links.message_seconds());
    // A rank sees what it accumulated itself before.
    WaitUntil(lock, std::max(Deliver(rank_, target, kGetRequestBytes), me_.accumulated_until), OneSided(target));
    ThrowIfLost(target, OneSided(target));
    if (target != rank_) CountSent(values.size_bytes());
    const std::span<float> memory = CheckWindow(target, id, offset, values.size());
    std::copy(memory.begin(), memory.end(), values.begin());
    WaitUntil(lock, Deliver(target, rank_, static_cast<double>(values.size_bytes())), OneSided(target));
  }

  double Now() const override {
    const std::lock_guard lock(state_->mutex);
    return me_.clock;
  }
  SimulatedTime* simulation() override { return this; }
  LossTolerance* losses() override { return this; }
  bool survives_losses() const override { return state_->machines_fail; }
  void TolerateLosses(bool tolerate) override {
    const std::lock_guard lock(state_->mutex);
    me_.tolerates_losses = tolerate;
  }
  void AcceptLosses(std::span<const int> ranks) override {
    const std::lock_guard lock(state_->mutex);
    me_.accepted.insert(me_.accepted.end(), ranks.begin(), ranks.end());
  }
  std::vector<int> LostRanks() const override {
    const std::lock_guard lock(state_->mutex);
    std::vector<int> ranks = state_->lost;
    std::sort(ranks.begin(), ranks.end());
    return ranks;
  }

  void Compute(double seconds) override {
    Lock lock(state_->mutex);
    const double taken = state_->hosts.ComputeSeconds(rank_, seconds * kReferenceFlops);
    me_.usage.compute_seconds += taken;
    me_.usage.waiting_seconds -= taken;  // WaitUntil adds it
    // What others accumulate meanwhile must be in place when this rank looks at its memory again.
    WaitUntil(lock, me_.clock + taken, "computing");
  }

  void Handled(Handling what, size_t bytes, std::string_view codec) override {
    Lock lock(state_->mutex);
    const double taken = state_->hosts.HandlingSeconds(rank_, what, static_cast<double>(bytes), codec);
    if (taken > 0) WaitUntil(lock, me_.clock + taken, "working on what was exchanged");
  }

  // As threads do it, with the same code, in virtual time.
  bool SumShared(std::span<float> values) override {
    if (!state_->links.shares_memory() || world_size() == 1 || values.size() < SharedSum::kLeast) return false;
    state_->shared_sum.Sum(rank_, values, [this] { Barrier(); });
    Handled(Handling::kCopy, 2 * values.size_bytes(), {});
    Handled(Handling::kAdd, values.size_bytes() * static_cast<size_t>(world_size() - 1) / ranks(), {});
    return true;
  }

  void Abort(const AbortReason& reason) override {
    const std::lock_guard lock(state_->mutex);
    if (!state_->aborted) state_->abort_reason = reason.From(rank_);
    state_->aborted = true;
    for (SimulatedRank& r : state_->ranks) r.turn.notify_all();
  }

 private:
  size_t ranks() const { return state_->ranks.size(); }
  static std::string OneSided(int target) { return fmt::format("one-sided access to rank {}", target); }

  // Gives the turn away until virtual time reaches `seconds`; for a receiving rank, or sooner if a message comes.
  void WaitUntil(Lock& lock, double seconds, std::string_view operation) {
    ThrowIfAborted(operation);
    CHECK(!me_.ended) << "rank " << rank_ << " is lost and must leave";
    me_.idle_polls = 0;
    const double failure = state_->hosts.FailureSeconds(rank_);
    me_.wake = std::min(seconds, failure);
    me_.has_turn = false;
    --state_->with_turn;
    state_->PassTurn();
    const auto can_go_on = [&] { return me_.has_turn || state_->aborted; };
    while (!can_go_on()) {
      if (state_->AllConnected()) {
        me_.turn.wait(lock, can_go_on);
      } else if (!me_.turn.wait_for(lock, std::chrono::duration<double>(deadline_seconds()), can_go_on)) {
        break;  // a rank never came; what this one waited for cannot happen any more
      }
    }
    if (!me_.has_turn) TakeTurn();
    me_.receiving = false;
    ThrowIfAborted(operation);
    me_.usage.waiting_seconds += std::max(0.0, me_.wake - me_.clock);
    me_.clock = std::max(me_.clock, me_.wake);
    if (me_.wake >= failure) {
      state_->End(rank_, true);
      Throw<RankLost>("{}: the machine fails at {:.6g} s of virtual time", Describe(operation), failure);
    }
  }
  void TakeTurn() {
    me_.has_turn = true;
    ++state_->with_turn;
  }
  double SendSeconds(size_t bytes) const { return state_->hosts.SendSeconds(rank_, static_cast<double>(bytes)); }
  void Advance(double seconds) {
    me_.clock += seconds;
    me_.usage.waiting_seconds += seconds;
  }
  double Deliver(int from, int to, double bytes) {
    RankUsage& usage = state_->at(from).usage;
    usage.bytes_sent += bytes;
    ++usage.messages;
    return state_->links.Deliver(from, to, bytes, me_.clock);
  }
  void ThrowIfAborted(std::string_view operation) const {
    if (state_->aborted) state_->abort_reason.Throw(Describe(operation));
  }
  void ThrowIfLost(int peer, std::string_view operation) const {
    if (!state_->LossStops(me_, peer)) return;
    const int first = peer != kAnySource && state_->at(peer).lost ? peer : state_->lost.front();
    Throw<PeerLost>("{}: rank {} is lost, its machine failed at {:.6g} s", Describe(operation), first,
                    state_->at(first).clock);
  }
  std::span<float> CheckWindow(int target, int id, size_t offset, size_t size) {
    const auto found = state_->windows.find({target, id});
    CHECK(found != state_->windows.end()) << "window " << id << " of rank " << target << " is not open";
    CHECK_LE(offset + size, found->second.size());
    return found->second.subspan(offset, size);
  }

  std::shared_ptr<State> state_;
  int rank_;
  SimulatedRank& me_;
  std::vector<double> waited_;  // seconds, by rank
};

}  // namespace

double SimulationReport::seconds() const {
  double last = 0;
  for (const RankUsage& r : ranks) last = std::max(last, r.end_seconds);
  return last;
}

double SimulationReport::bytes_sent() const {
  double sum = 0;
  for (const RankUsage& r : ranks) sum += r.bytes_sent;
  return sum;
}

SimulatedWorld::SimulatedWorld(int world_size, const ClusterOptions& cluster)
    : state_(std::make_shared<State>(world_size, cluster)) {}
SimulatedWorld::~SimulatedWorld() = default;

std::unique_ptr<Communicator> SimulatedWorld::Connect(int rank) {
  CHECK(rank >= 0 && rank < static_cast<int>(state_->ranks.size())) << rank;
  return std::make_unique<SimulatedCommunicator>(state_, rank);
}

SimulationReport SimulatedWorld::Report() const {
  const std::lock_guard lock(state_->mutex);
  SimulationReport report;
  for (const SimulatedRank& rank : state_->ranks) report.ranks.push_back(rank.usage);
  return report;
}

SimulationReport RunSimulated(int world_size, const ClusterOptions& cluster,
                              const std::function<void(Communicator&)>& body) {
  SimulatedWorld world(world_size, cluster);
  RunRankThreads(
      0, world_size, [&](int rank) { return world.Connect(rank); }, body);
  return world.Report();
}

}  // namespace antiphon::comm
