// A pool of parameter servers: each holds a shard of the model; the first of them, the coordinator, also hands out
// minibatches and keeps the clocks. Servers are the first ranks, or all, and workers too; or the last ranks, which then
// do nothing else: a `dedicated` server takes no minibatch, so that it serves from BeginRound to EndRound.
//
// Everything is a message, so that one thread per rank is enough, and the order in which a rank handles requests is all
// that makes two runs differ. That order can be logged, and replayed bit for bit; a replay ends its rounds early where
// the logged run did, and nowhere else. Servers that are workers serve between the layers of their own passes, or,
// where the communicator allows it, by a second thread while the first computes; one of the two at a time.
//
//   pool.BeginRound(first, last, values);
//   while (auto m = pool.Take()) { …train…; if (pool.Judge({*m}).apply) pool.Push(change, 0); pool.Pull(values); }
//   pool.EndRound();
//
// With `ahead`, a pull is asked for when the one before is taken, and travels while the worker computes: PullAhead
// takes what was asked for an exchange ago. What the worker itself has changed since then it adds.
//
// A worker's clock counts its pushes. With a bound s, Pull waits until no worker is more than s pushes behind, and what
// it reads holds every push of a clock at least s + 1 lower than its own (and perhaps newer ones).
// With s = 0 no push is made before all workers have read, so that it holds these alone: synchronous SGD.
//
// Lost ranks: where the communicator goes on without lost ranks, a worker that is no server may be lost in a round.
// What it took goes back to the pool unless all servers have reported its push; numbers stay until the round has ended.
//
// Threads: one per rank. Waiting always serves the others. Deadlines, errors: as the communicator.
// Source: Dean et al., NIPS 2012; Ho et al., NIPS 2013; algorithms reference 1.7 and 1.9.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "parallel/arrival_log.h"
#include "parallel/incoming_letters.h"
#include "parallel/minibatch_ledger.h"
#include "parallel/server_pool_letter.h"
#include "parallel/server_pool_options.h"
#include "parallel/serving_thread.h"

namespace antiphon::parallel {

class ServerPool {
 public:
  ServerPool(comm::Communicator& comm, const ServerPoolOptions& options, std::span<const float> model);

  // Rounds; collective.
  /// `model` becomes what this worker has pulled, with the pushes of whoever was faster; empty: nobody looks at it.
  void BeginRound(int64_t first, int64_t last, std::span<float> model = {});
  /// Nothing new is handed out any more. Without effect in a replay.
  void Stop();
  /// Waits for all workers; what this one took must be judged. Returns where the next round begins and how many
  /// minibatches came back without having been trained on.
  std::pair<int64_t, int64_t> EndRound();
  /// Minibatches that came back with workers lost in the last round, and have not been told of.
  int64_t TakeGivenBack() { return std::exchange(given_back_, 0); }
  /// Every rank's shard into `model`. Collective.
  void Collect(std::span<float> model);
  /// The shards become `model`'s values; server memory is kept.
  void SetModel(std::span<const float> model);
  void ResetState() { shard_.ResetState(); }

  // A worker.
  std::optional<int64_t> Take();
  /// Whether a push made from these minibatches, computed on the last pull, is still fresh enough; else they go back.
  Verdict Judge(std::span<const int64_t> minibatches);
  /// `push` is as long as the model; may be overwritten when this returns.
  void Push(std::span<const float> push, double learning_rate);
  /// With rule "sum": pushes what `model` has become since the pull; the next exchange needs a pull before it.
  void PushChange(std::span<const float> model);
  void Pull(std::span<float> model);
  /// With `ahead`, instead of Pull and PushChange: `model` becomes what was asked for at the last exchange, with rule
  /// "sum" plus what the worker has changed since then if `apply` says so, which is then pushed.
  void PullAhead(std::span<float> model, bool apply);
  /// Handles the requests that have arrived.
  void Serve();

  const ServerStatistics& statistics() const { return statistics_; }
  int servers() const { return servers_; }
  /// That take minibatches.
  int workers() const { return comm_.world_size() - (options_.dedicated ? servers_ : 0); }
  bool IsServer(int rank) const { return rank >= FirstServer() && rank < FirstServer() + servers_; }
  /// Between rounds.
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const;
  void LoadState(const SafetensorsReader& reader, const std::string& prefix);
  /// Of a run with another number of ranks: which minibatches came back; none if there are no `ranks`. The arrival log
  /// ends: InputError if one is to be followed.
  void LoadLedger(std::span<const SafetensorsReader> ranks, const std::string& prefix);
  void WriteLog() const { log_.Write(); }

 private:
  using Kind = PoolLetterKind;
  using Letter = PoolLetter;
  using Lock = std::lock_guard<std::mutex>;

  // As ranks are numbered now; the first one is the coordinator.
  int FirstServer() const { return options_.dedicated ? comm_.world_size() - servers_ : 0; }
  bool coordinator() const { return comm_.rank() == FirstServer(); }
  bool serves() const { return IsServer(comm_.rank()); }
  bool works() const { return !options_.dedicated || !serves(); }
  int own_shard() const { return comm_.rank() - FirstServer(); }
  void AskCoordinator(Kind kind, int64_t number, std::span<const std::byte> payload = {}) {
    Request(FirstServer(), kind, number, 0, payload);
  }
  // Servers tell the coordinator of each push.
  bool reports_pushes() const { return options_.staleness_bound >= 0 || comm_.survivors() != nullptr; }
  template <class T>
  std::span<T> Part(int server, std::span<T> model) const {
    const auto begin = [&](int s) { return model_size_ * static_cast<size_t>(s) / static_cast<size_t>(servers_); };
    return model.subspan(begin(server), begin(server + 1) - begin(server));
  }
  void Send(int rank, Kind kind, int64_t number, double real, std::span<const std::byte> payload);
  void SendHead(int rank, Kind kind, int64_t number, double real, size_t payload_bytes);
  /// Calls it, again after losses that the run survives.
  template <class Call>
  void DespiteLosses(const Call& call);
  /// To itself a request is handled at once, in its turn.
  void Request(int rank, Kind kind, int64_t number, double real = 0, std::span<const std::byte> payload = {});
  /// When replaying: whether the log has this request next. InputError if it has another of the same sender there.
  bool IsNext(const Letter& letter);
  void ReceiveOne();
  void ServeAll();
  void Accept(Letter letter);
  std::optional<comm::Message> ReceiveUnlessLost(int source, int tag);
  void NoteLosses();
  void HandleRequests();
  void Handle(const Letter& letter);
  Letter WaitFor(Kind kind, int source);
  void AskForValues();
  void TakeAllValues();
  void PullNow(std::span<float> model);
  void AskAhead();
  void TakeAhead();
  void PushAway(int server, std::vector<std::byte>& push);
  // The coordinator's part.
  void Lose(int worker);
  void HandleJudge(const Letter& letter);
  void AnswerJudge(const Letter& letter);
  void AnswerHeld();
  void HandlePush(const Letter& letter);
  void HandlePull(const Letter& letter);
  void NoteApplied(size_t worker);
  void ReleaseReaders();
  void CloseIfDone();

  comm::Communicator& comm_;
  ServerPoolOptions options_;
  int servers_;
  size_t model_size_;
  ParameterShard shard_;
  ArrivalLog log_;
  ServerStatistics statistics_;

  IncomingLetters incoming_;
  std::deque<Letter> requests_;  // received, but not yet handled
  std::deque<Letter> replies_;
  std::vector<std::vector<std::byte>> pulled_;  // values by server; of this rank's own shard with rule "sum" alone
  std::vector<std::vector<std::byte>> asked_;   // with `ahead`: answers to the pull of the last exchange
  bool asked_ahead_ = false;                    // answers are due
  bool pushed_ = false;                         // at the last exchange
  int64_t asked_clock_ = 0;                     // pushes of all workers then
  std::span<float> own_part_;                   // where this worker's own shard is pulled to, while it asks; else empty
  std::vector<int64_t> pulled_versions_;        // by server
  int64_t pulled_clock_ = 0;                    // pushes of all workers when this one pulled
  int64_t clock_ = 0;                           // this worker's pushes in this round
  std::vector<bool> gone_;                      // lost in this round, by rank
  bool take_requested_ = false;
  bool nothing_left_ = false;

  // Coordinator.
  MinibatchLedger ledger_;
  int64_t pushes_ = 0;            // that were found fresh, in this round
  std::vector<int64_t> judged_;   // the same by worker
  std::vector<int64_t> clocks_;   // pushes that are in all shards, by worker
  std::vector<int64_t> applied_;  // shards' reports of them
  std::vector<bool> done_;
  std::vector<std::deque<std::vector<int64_t>>> promised_;  // by worker: what its pushes under way were made from
  int64_t given_back_ = 0;
  bool over_ = false;
  std::vector<Letter> held_;                      // to be judged together, with a bound of 0
  std::vector<std::pair<int, int64_t>> waiting_;  // worker, its clock

  std::mutex mutex_;                        // of everything, in a round
  std::unique_ptr<ServingThread> serving_;  // last, as it uses the others
};

}  // namespace antiphon::parallel
