#include "data/shard_fetcher.h"

#include "base/log.h"

namespace antiphon::data {

ShardFetcher::ShardFetcher(ShardCache cache, std::function<Shard(size_t)> describe,
                           std::function<void(size_t, const std::byte*)> switch_to)
    : cache_(std::move(cache)),
      describe_(std::move(describe)),
      switch_to_(std::move(switch_to)),
      thread_([this] { Work(); }) {}

ShardFetcher::~ShardFetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ShardFetcher::Ask(size_t shard) {
  {
    const std::lock_guard lock(mutex_);
    if (asked_.insert(shard).second) waiting_.push_back(shard);
  }
  changed_.notify_all();
}

size_t ShardFetcher::Finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
  return num_copies_;
}

void ShardFetcher::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stop_ || !waiting_.empty(); });
    if (stop_) return;
    const size_t shard = waiting_.front();
    waiting_.pop_front();
    busy_ = true;
    lock.unlock();
    Fetch(shard);
    lock.lock();
    busy_ = false;
    num_copies_ = copies_.size();
    changed_.notify_all();
  }
}

void ShardFetcher::Fetch(size_t shard) {
  const Shard what = describe_(shard);
  std::string why;
  if (auto copy = cache_.Take(what.name, what.source, what.bytes, what.verify, stop_, why)) {
    copies_.push_back(std::move(*copy));
    switch_to_(shard, copies_.back().bytes().data());
  } else if (!told_ && !stop_) {
    told_ = true;
    log::Warn("no copy of '{}' in the cache, it is read where it is (and so are others that have none): {}",
              what.source.string(), why);
  }
}

}  // namespace antiphon::data
