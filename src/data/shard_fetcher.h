// Brings a store's shards into the cache, lends them to readers, and lets go of those that nobody needs.
//
// A thread of its own fetches first what a reader waits for, then what readers say that they will read, in that order.
// When there is no room, it lets go of what nobody reads and nobody wants, longest unused first; for a reader that
// waits, also of what is wanted latest. Shards that somebody wanted and nobody wants any more are let go at once: the
// copy stays in the cache until others need its room.
//
// Threads: all from any, together. In a process that was forked from the maker's the thread is missing: what is there
// is lent, nothing is fetched, and who has to wait gets a UsageError. Errors: those of the cache and of what fills it,
// thrown to the reader that waits; for shards without such a reader, a warning in the log.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/shard_cache.h"

namespace antiphon::data {

class ShardFetcher {
  struct Slot;

 public:
  struct Source {
    /// What makes and checks the copy of a shard; `stop` is asked between pieces.
    std::function<CacheEntry(size_t shard, const std::function<bool()>& stop)> describe;
    /// Where a shard comes from, for people.
    std::function<std::string(size_t shard)> name;
    /// Shards can be read where they are: a copy that cannot be made is told in the log, once.
    bool has_originals = false;
    /// How long a reader waits for others to give room.
    std::chrono::milliseconds patience = std::chrono::minutes(2);
  };

  /// A copy that stays where it is while it is read.
  class Loan {
   public:
    Loan() = default;
    Loan(Loan&& other) noexcept : data_(std::exchange(other.data_, nullptr)), loans_(other.loans_) {}
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (data_ != nullptr) loans_->fetch_sub(1, std::memory_order_release);
    }
    /// Null: there is none.
    const std::byte* data() const { return data_; }

   private:
    friend class ShardFetcher;
    Loan(const std::byte* data, std::atomic<int>* loans) : data_(data), loans_(loans) {}
    const std::byte* data_ = nullptr;
    std::atomic<int>* loans_ = nullptr;
  };

  ShardFetcher(ShardCache cache, size_t num_shards, Source source);
  ~ShardFetcher();

  /// What `reader` will read, in that order, instead of what it said before.
  void Want(uint64_t reader, std::span<const size_t> shards);
  /// The copy if it is there.
  Loan Lend(size_t shard);
  /// The copy, waiting for it. Cancelled if somebody asked to stop.
  Loan Await(size_t shard);
  /// Waits until nothing is left to do or there is no room for it; how many copies are held.
  size_t Finish();
  /// Lets the system take back the pages of copies; reading goes on from the files.
  void ReleasePages() const;
  uint64_t limit_bytes() const { return cache_.limit_bytes(); }
  /// Whether this process was forked from the maker's; it must not destroy the fetcher then.
  bool forked() const;

 private:
  enum class Outcome { kThere, kNoRoom, kFailed };

  void Work();
  /// Of those wanted, the next that is neither there nor refused.
  std::optional<size_t> NextWanted() const;
  bool IsIdle() const { return demanded_.empty() && (stalled_ || !NextWanted()) && !busy_; }
  Outcome Fetch(size_t shard, bool awaited);
  Outcome Fail(size_t shard, bool awaited, std::exception_ptr error);
  std::optional<CachedFile> TakeWithRoom(size_t shard, bool awaited);
  /// Lets go of a copy to make room; false: there is none to let go of.
  bool MakeRoom(bool awaited);
  /// False: it is being read.
  bool LetGo(size_t shard);
  void LetGoOfUnwanted();
  /// By shard, how far ahead it is wanted.
  std::map<size_t, size_t> Wanted() const;

  const pid_t process_;
  ShardCache cache_;
  Source source_;
  size_t num_shards_;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<uint64_t> clock_ = 1;
  bool told_ = false;  // the thread's

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::vector<size_t>> wants_;  // by reader
  std::set<size_t> unwanted_;                      // no longer wanted, and perhaps still there
  std::deque<size_t> demanded_;
  std::map<size_t, int> awaited_;                // readers that wait, by shard
  std::map<size_t, std::exception_ptr> errors_;  // of what was demanded
  std::set<size_t> refused_;                     // could not be fetched when nobody waited
  bool stalled_ = false;                         // no room for what is wanted
  bool busy_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace antiphon::data
