// Brings shards into the cache in the background, in the order in which they are asked for, and tells when a copy can
// be read. Copies stay in use as long as this lives.
//
// Threads: Ask and Finish from any; `switch_to` is called on the fetcher's own. Errors: none; what cannot be cached is
// told once in the log.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "data/shard_cache.h"

namespace antiphon::data {

class ShardFetcher {
 public:
  struct Shard {
    std::string name;
    std::filesystem::path source;
    uint64_t bytes;
    std::function<void(std::span<const std::byte>)> verify;
  };
  ShardFetcher(ShardCache cache, std::function<Shard(size_t)> describe,
               std::function<void(size_t shard, const std::byte* data)> switch_to);
  ~ShardFetcher();

  /// Each shard counts once.
  void Ask(size_t shard);
  /// Waits until nothing is left to do; how many copies are in use.
  size_t Finish();

 private:
  void Work();
  void Fetch(size_t shard);

  ShardCache cache_;
  std::function<Shard(size_t)> describe_;
  std::function<void(size_t, const std::byte*)> switch_to_;
  std::vector<CachedFile> copies_;  // the thread's
  bool told_ = false;               // the thread's

  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<size_t> asked_;
  std::deque<size_t> waiting_;
  bool busy_ = false;
  size_t num_copies_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace antiphon::data
