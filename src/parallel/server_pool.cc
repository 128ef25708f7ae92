#include "parallel/server_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "comm/second_thread.h"
#include "parallel/float_bytes.h"

namespace antiphon::parallel {
namespace {

constexpr int64_t kNothing = -1;
constexpr double kSecondsToListen = 0.002;  // the end of a round waits for so long

std::filesystem::path OfRank(const std::string& path, int rank) {
  return path.empty() ? std::filesystem::path() : std::filesystem::path(fmt::format("{}.rank-{}", path, rank));
}

// Of `shard`, a part of `model`.
std::vector<RateRange> RatesOfShard(const std::vector<RateRange>& rates, std::span<const float> shard,
                                    std::span<const float> model) {
  const auto first = static_cast<size_t>(shard.data() - model.data());
  const size_t last = first + shard.size();
  std::vector<RateRange> own;
  for (const RateRange& range : rates) {
    if (range.end <= first) continue;
    own.push_back({.end = std::min(range.end, last) - first, .factor = range.factor});
    if (range.end >= last) break;
  }
  return own;
}

}  // namespace

ServerPool::ServerPool(comm::Communicator& comm, const ServerPoolOptions& options, std::span<const float> model)
    : comm_(comm),
      options_(options),
      servers_(options.servers == 0 ? comm.world_size() : options.servers),
      model_size_(model.size()),
      log_(OfRank(options.log, comm.rank()), OfRank(options.replay, comm.rank())),
      incoming_(comm, [this](int source, int tag) { return ReceiveUnlessLost(source, tag); }),
      pulled_(static_cast<size_t>(servers_)),
      pulled_versions_(static_cast<size_t>(servers_), 0),
      gone_(static_cast<size_t>(comm.world_size()), false),
      ledger_(comm.world_size()) {
  if (servers_ < 1 || servers_ > comm.world_size()) {
    Throw<UsageError>("parallel.servers is {}, but the {} workers are the servers: expected 1 … {}", options.servers,
                      comm.world_size(), comm.world_size());
  }
  if (workers() < 1) {
    Throw<UsageError>("parallel.servers is {}: with dedicated-servers, one of the {} ranks must be left to learn",
                      servers_, comm.world_size());
  }
  if (!serves()) return;
  const std::span<const float> shard = Part(own_shard(), model);
  shard_ = ParameterShard(options.rule, options.momentum, shard, RatesOfShard(options.rates, shard, model));
}

void ServerPool::BeginRound(int64_t first, int64_t last, std::span<float> model) {
  const Lock lock(mutex_);
  const auto workers = static_cast<size_t>(comm_.world_size());
  ledger_.SetWorkers(comm_.world_size());
  ledger_.BeginRound(first, last);
  pushes_ = pulled_clock_ = asked_clock_ = clock_ = 0;
  take_requested_ = nothing_left_ = over_ = asked_ahead_ = pushed_ = false;
  judged_.assign(workers, 0);
  clocks_.assign(workers, 0);
  applied_.assign(workers, 0);
  done_.assign(workers, false);
  gone_.assign(workers, false);
  promised_.assign(workers, {});
  held_.clear();
  incoming_.Clear();
  replies_.clear();  // of a round that ended in the middle
  given_back_ = 0;
  if (!works()) return;
  PullNow(model);
  if (options_.ahead) AskAhead();
  auto* const second = dynamic_cast<comm::SecondThread*>(&comm_);
  if (second == nullptr || !second->allowed() || !serves() || comm_.world_size() == 1) return;
  // Any news: what belongs to a head comes behind it.
  serving_ = std::make_unique<ServingThread>(
      mutex_, [second] { second->AwaitNews(kSecondsToListen); }, [this] { ServeAll(); });
}

// What asks for a stop, a clock or a person, does so at other times in a replay.
void ServerPool::Stop() {
  if (log_.replaying()) return;
  const Lock lock(mutex_);
  AskCoordinator(Kind::kStop, 0);
}

std::pair<int64_t, int64_t> ServerPool::EndRound() {
  // From here on this thread serves until the round is over.
  if (serving_) serving_->Check();
  serving_.reset();
  // An answer to a request made ahead may still be due.
  if (take_requested_) WaitFor(Kind::kGranted, FirstServer());
  if (asked_ahead_) TakeAhead();
  AskCoordinator(Kind::kDone, 0);
  const int64_t given_back = WaitFor(Kind::kOver, FirstServer()).number;
  if (!coordinator()) given_back_ = given_back;
  CHECK(replies_.empty()) << replies_.size() << " answers that nobody waited for";
  int64_t result[] = {0, 0};
  comm_.Together([&] {
    result[0] = ledger_.next();
    result[1] = ledger_.num_returned();
    comm_.Broadcast(FirstServer(), std::as_writable_bytes(std::span(result)));
  });
  return {result[0], result[1]};
}

void ServerPool::Collect(std::span<float> model) {
  if (serves()) {
    const std::span<const float> mine = shard_.values();
    std::copy(mine.begin(), mine.end(), Part(own_shard(), model).begin());
  }
  comm_.Together([&] {
    for (int s = 0; s < servers_; ++s) comm_.Broadcast(FirstServer() + s, Part(s, model));
  });
}

void ServerPool::SetModel(std::span<const float> model) {
  if (serves()) shard_.SetValues(Part(own_shard(), model));
}

std::optional<int64_t> ServerPool::Take() {
  const Lock lock(mutex_);
  if (nothing_left_ || !works()) return std::nullopt;
  if (!take_requested_) AskCoordinator(Kind::kTake, 0);
  const int64_t minibatch = WaitFor(Kind::kGranted, FirstServer()).number;
  take_requested_ = minibatch != kNothing;
  nothing_left_ = !take_requested_;
  // The next answer travels while this minibatch is trained on.
  if (take_requested_) AskCoordinator(Kind::kTake, 0);
  if (nothing_left_) return std::nullopt;
  return minibatch;
}

Verdict ServerPool::Judge(std::span<const int64_t> minibatches) {
  const Lock lock(mutex_);
  // What was pulled ahead lacks this worker's last push, which its model has.
  const bool has_own = options_.ahead && pushed_ && options_.rule == ServerRule::kSum;
  const int64_t known = pulled_clock_ + (has_own ? 1 : 0);
  AskCoordinator(Kind::kJudge, known, std::as_bytes(minibatches));
  const Letter answer = WaitFor(Kind::kVerdict, FirstServer());
  Verdict verdict;
  verdict.apply = pushed_ = answer.real != 0;
  verdict.staleness = answer.number - (verdict.apply ? 1 : 0) - known;
  pulled_clock_ = options_.ahead ? std::exchange(asked_clock_, answer.number) : answer.number;
  if (!verdict.apply) ++statistics_.dropped;
  return verdict;
}

void ServerPool::Push(std::span<const float> push, double learning_rate) {
  const Lock lock(mutex_);
  ++clock_;
  for (int s = 0; s < servers_; ++s) {
    Request(FirstServer() + s, Kind::kPush, pulled_versions_[static_cast<size_t>(s)], learning_rate,
            std::as_bytes(Part(s, push)));
  }
}

void ServerPool::PushChange(std::span<const float> model) {
  CHECK(options_.rule == ServerRule::kSum);
  const Lock lock(mutex_);
  ++clock_;
  for (int s = 0; s < servers_; ++s) {
    std::vector<std::byte>& push = pulled_[static_cast<size_t>(s)];
    const std::span<float> change = AsFloats(push);
    const std::span<const float> now = Part(s, model);
    CHECK_EQ(change.size(), now.size()) << "a push without a pull before it";
    for (size_t i = 0; i < now.size(); ++i) change[i] = now[i] - change[i];
    comm_.Handled(comm::Handling::kAdd, push.size());
    PushAway(s, push);
  }
}

// With the version that was pulled.
void ServerPool::PushAway(int server, std::vector<std::byte>& push) {
  const int64_t version = pulled_versions_[static_cast<size_t>(server)];
  const int rank = FirstServer() + server;
  if (rank == comm_.rank()) {
    Request(rank, Kind::kPush, version, 0, push);
  } else {
    SendHead(rank, Kind::kPush, version, 0, push.size());
    DespiteLosses([&] { comm_.SendAway(rank, IncomingLetters::kPayloadTag, push); });
  }
  push.clear();
}

void ServerPool::Pull(std::span<float> model) {
  const Lock lock(mutex_);
  if (options_.staleness_bound >= 0) {
    AskCoordinator(Kind::kMayRead, clock_);
    WaitFor(Kind::kRead, FirstServer());
  }
  PullNow(model);
}

void ServerPool::PullNow(std::span<float> model) {
  if (serves() && !model.empty()) own_part_ = Part(own_shard(), model);
  AskForValues();
  own_part_ = {};
  TakeAllValues();
  for (int s = 0; s < servers_ && !model.empty(); ++s) {
    if (s == own_shard()) continue;
    const std::span<const float> values = AsFloats(pulled_[static_cast<size_t>(s)]);
    CHECK_EQ(values.size(), Part(s, model).size());
    std::copy(values.begin(), values.end(), Part(s, model).begin());
    comm_.Handled(comm::Handling::kCopy, values.size_bytes());
  }
}

void ServerPool::AskForValues() {
  for (int s = 0; s < servers_; ++s) Request(FirstServer() + s, Kind::kPull, 0);
}

void ServerPool::TakeAllValues() {
  for (int server = 0; server < servers_; ++server) {
    const auto s = static_cast<size_t>(server);
    Letter answer = WaitFor(Kind::kValues, FirstServer() + server);
    pulled_versions_[s] = answer.number;
    if (server != own_shard()) pulled_[s] = std::move(answer.owned);
  }
}

void ServerPool::Serve() {
  if (serving_) return serving_->Check();
  const Lock lock(mutex_);
  ServeAll();
}

void ServerPool::Send(int rank, Kind kind, int64_t number, double real, std::span<const std::byte> payload) {
  if (rank == comm_.rank()) {
    replies_.push_back({rank, kind, number, real, {payload.begin(), payload.end()}, {}});
    return;
  }
  SendHead(rank, kind, number, real, payload.size());
  if (!payload.empty()) DespiteLosses([&] { comm_.Send(rank, IncomingLetters::kPayloadTag, payload); });
}

// Apart, so that the payload is not copied to stand behind the head.
void ServerPool::SendHead(int rank, Kind kind, int64_t number, double real, size_t payload_bytes) {
  const PoolLetterHead head{static_cast<int64_t>(kind), number, real, static_cast<int64_t>(payload_bytes)};
  DespiteLosses([&] { comm_.Send(rank, IncomingLetters::kHeadTag, std::as_bytes(std::span(&head, 1))); });
}

template <class Call>
void ServerPool::DespiteLosses(const Call& call) {
  for (;;) {
    try {
      return call();
    } catch (const comm::PeerLost&) {
      NoteLosses();
    }
  }
}

void ServerPool::Request(int rank, Kind kind, int64_t number, double real, std::span<const std::byte> payload) {
  if (rank != comm_.rank()) return Send(rank, kind, number, real, payload);
  // Those before it in the log may not have come yet.
  Letter letter{rank, kind, number, real, {}, payload};
  while (log_.replaying() && !IsNext(letter)) ReceiveOne();
  log_.Record(letter.arrival());
  Handle(letter);
  HandleRequests();
}

void ServerPool::Handle(const Letter& letter) {
  if (gone_[static_cast<size_t>(letter.source)]) return;  // what it had is others' by now
  switch (letter.kind) {
    case Kind::kTake:
      Send(letter.source, Kind::kGranted, ledger_.Take(letter.source).value_or(kNothing), 0, {});
      break;
    case Kind::kJudge:
      HandleJudge(letter);
      break;
    case Kind::kPush:
      HandlePush(letter);
      break;
    case Kind::kPull:
      HandlePull(letter);
      break;
    case Kind::kApplied:
      NoteApplied(static_cast<size_t>(letter.number));
      ReleaseReaders();
      CloseIfDone();
      break;
    case Kind::kMayRead:
      waiting_.emplace_back(letter.source, letter.number);
      ReleaseReaders();
      break;
    case Kind::kDone:
      done_[static_cast<size_t>(letter.source)] = true;
      AnswerHeld();
      ReleaseReaders();
      CloseIfDone();
      break;
    case Kind::kStop:
      ledger_.Stop();
      break;
    default:
      CHECK(false) << "request of kind " << static_cast<int64_t>(letter.kind);
  }
}

void ServerPool::HandlePush(const Letter& letter) {
  const int64_t staleness = shard_.version() - letter.number;
  shard_.Apply(AsFloats(letter.payload()), letter.real);
  comm_.Handled(comm::Handling::kAdd, letter.payload().size());
  ++statistics_.pushes;
  statistics_.stale += staleness;
  statistics_.stalest = std::max(statistics_.stalest, staleness);
  if (reports_pushes()) AskCoordinator(Kind::kApplied, letter.source);
}

void ServerPool::HandlePull(const Letter& letter) {
  if (letter.source != comm_.rank() || asked_ahead_) {
    return Send(letter.source, Kind::kValues, shard_.version(), 0, std::as_bytes(shard_.values()));
  }
  // Copied now, as the shard may go on before this worker looks at the answer.
  std::copy_n(shard_.values().begin(), own_part_.size(), own_part_.begin());
  if (options_.rule == ServerRule::kSum) {
    const std::span<const std::byte> values = std::as_bytes(shard_.values());
    pulled_[static_cast<size_t>(own_shard())].assign(values.begin(), values.end());
    comm_.Handled(comm::Handling::kCopy, values.size());
  }
  comm_.Handled(comm::Handling::kCopy, own_part_.size_bytes());
  Send(letter.source, Kind::kValues, shard_.version(), 0, {});
}

}  // namespace antiphon::parallel
