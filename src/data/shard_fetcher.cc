#include "data/shard_fetcher.h"

#include <unistd.h>

#include <algorithm>
#include <exception>

#include "base/cancel.h"
#include "base/error.h"
#include "base/finally.h"
#include "base/log.h"
#include "base/release_pages.h"

namespace antiphon::data {
namespace {

constexpr auto kBetweenDemands = std::chrono::milliseconds(50);
// Until it is tried again whether other processes have given room.
constexpr auto kBetweenTries = std::chrono::seconds(1);

}  // namespace

// A reader counts itself in and then looks whether the copy is there; who lets go takes the copy away and then looks
// whether a reader is counted. As both are in one order for all, one of them sees the other.
struct ShardFetcher::Slot {
  std::atomic<const std::byte*> data = nullptr;
  std::atomic<int> loans = 0;
  std::atomic<uint64_t> used = 0;
  std::optional<CachedFile> file;  // under the mutex
};

ShardFetcher::ShardFetcher(ShardCache cache, size_t num_shards, Source source)
    : process_(::getpid()),
      cache_(std::move(cache)),
      source_(std::move(source)),
      num_shards_(num_shards),
      slots_(std::make_unique<Slot[]>(num_shards)),
      thread_([this] { Work(); }) {}

ShardFetcher::~ShardFetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool ShardFetcher::forked() const { return process_ != ::getpid(); }

void ShardFetcher::Want(uint64_t reader, std::span<const size_t> shards) {
  if (forked()) return;
  {
    const std::lock_guard lock(mutex_);
    std::vector<size_t>& wants = wants_[reader];
    unwanted_.insert(wants.begin(), wants.end());
    wants.assign(shards.begin(), shards.end());
    if (wants.empty()) wants_.erase(reader);
    for (const auto& [other, wanted] : wants_) {
      for (const size_t shard : wanted) unwanted_.erase(shard);
    }
    refused_.clear();
    stalled_ = false;
  }
  changed_.notify_all();
}

ShardFetcher::Loan ShardFetcher::Lend(size_t shard) {
  Slot& slot = slots_[shard];
  slot.loans.fetch_add(1);
  const std::byte* const data = slot.data.load();
  if (data == nullptr) {
    slot.loans.fetch_sub(1, std::memory_order_release);
    return {};
  }
  slot.used.store(clock_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  return {data, &slot.loans};
}

ShardFetcher::Loan ShardFetcher::Await(size_t shard) {
  if (forked()) {
    if (Loan loan = Lend(shard); loan.data() != nullptr) return loan;
    Throw<UsageError>(
        "'{}' cannot be fetched here: this process was forked from the one that opened the frame store, and the thread "
        "that fetches stayed there; open the store again in this process",
        source_.name(shard));
  }
  std::unique_lock lock(mutex_);
  // Nobody lets go of what a reader is about to take.
  ++awaited_[shard];
  const Finally leave([&] {
    if (--awaited_[shard] == 0) awaited_.erase(shard);
  });
  bool asked = false;
  for (;;) {
    if (Loan loan = Lend(shard); loan.data() != nullptr) return loan;
    if (const auto error = errors_.find(shard); asked && error != errors_.end()) {
      std::rethrow_exception(error->second);
    }
    if (std::find(demanded_.begin(), demanded_.end(), shard) == demanded_.end()) {
      errors_.erase(shard);
      demanded_.push_back(shard);
      changed_.notify_all();
    }
    asked = true;
    changed_.wait_for(lock, kBetweenDemands);
    ThrowIfCancelled("waiting for training data from a server");
  }
}

size_t ShardFetcher::Finish() {
  if (forked()) return 0;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return IsIdle(); });
  size_t copies = 0;
  for (size_t s = 0; s < num_shards_; ++s) copies += slots_[s].data.load() != nullptr ? 1 : 0;
  return copies;
}

void ShardFetcher::ReleasePages() const {
  if (forked()) return;  // the mutex may be locked here for ever
  const std::lock_guard lock(mutex_);
  for (size_t s = 0; s < num_shards_; ++s) {
    if (slots_[s].file) antiphon::ReleasePages(slots_[s].file->bytes());
  }
}

std::optional<size_t> ShardFetcher::NextWanted() const {
  size_t longest = 0;
  for (const auto& [reader, wanted] : wants_) longest = std::max(longest, wanted.size());
  for (size_t i = 0; i < longest; ++i) {
    for (const auto& [reader, wanted] : wants_) {
      if (i >= wanted.size()) continue;
      if (slots_[wanted[i]].data.load() == nullptr && refused_.count(wanted[i]) == 0) return wanted[i];
    }
  }
  return std::nullopt;
}

void ShardFetcher::Work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    LetGoOfUnwanted();
    const bool awaited = !demanded_.empty();
    const std::optional<size_t> next = awaited    ? std::optional(demanded_.front())
                                       : stalled_ ? std::nullopt
                                                  : NextWanted();
    if (!next) {
      // What is still being read, or has no room, is looked at again.
      const bool look_again = stalled_ || !unwanted_.empty();
      look_again ? (void)changed_.wait_for(lock, kBetweenTries) : changed_.wait(lock);
      stalled_ = false;
      continue;
    }
    busy_ = true;
    lock.unlock();
    const Outcome outcome = Fetch(*next, awaited);
    lock.lock();
    busy_ = false;
    if (awaited) demanded_.erase(std::find(demanded_.begin(), demanded_.end(), *next));
    if (outcome == Outcome::kNoRoom) stalled_ = true;
    changed_.notify_all();
  }
}

ShardFetcher::Outcome ShardFetcher::Fetch(size_t shard, bool awaited) {
  Slot& slot = slots_[shard];
  if (slot.data.load() != nullptr) return Outcome::kThere;
  try {
    std::optional<CachedFile> copy = TakeWithRoom(shard, awaited);
    if (!copy) return Outcome::kNoRoom;
    const std::lock_guard lock(mutex_);
    slot.file.emplace(std::move(*copy));
    slot.used.store(clock_.fetch_add(1), std::memory_order_relaxed);
    slot.data.store(slot.file->bytes().data());
    return Outcome::kThere;
  } catch (...) {
    return Fail(shard, awaited, std::current_exception());
  }
}

ShardFetcher::Outcome ShardFetcher::Fail(size_t shard, bool awaited, std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (awaited) {
    errors_[shard] = std::move(error);
    return Outcome::kFailed;
  }
  refused_.insert(shard);
  if (stop_ || (told_ && source_.has_originals)) return Outcome::kFailed;
  told_ = true;
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    const std::string_view then = source_.has_originals ? ", it is read where it is (and so are others that have none)"
                                                        : "; it is fetched again when it is read";
    log::Warn("no copy of '{}' in the cache{}: {}", source_.name(shard), then, e.what());
  }
  return Outcome::kFailed;
}

std::optional<CachedFile> ShardFetcher::TakeWithRoom(size_t shard, bool awaited) {
  const std::function<bool()> stop = [this] { return stop_.load(); };
  const CacheEntry entry = source_.describe(shard, stop);
  const auto end = std::chrono::steady_clock::now() + source_.patience;
  for (;;) {
    if (auto copy = cache_.Take(entry, stop)) return copy;
    if (MakeRoom(awaited)) continue;
    if (!awaited) {
      if (source_.has_originals) Throw<InputError>("the cache '{}' is full of files in use", cache_.folder().string());
      return std::nullopt;
    }
    if (stop_ || std::chrono::steady_clock::now() > end) {
      Throw<InputError>(
          "the cache '{}' is full of files that others are reading, and none gave room for '{}': raise "
          "data.cache-limit-gb, or lower data.shards-at-once",
          cache_.folder().string(), source_.name(shard));
    }
    std::this_thread::sleep_for(kBetweenDemands);
  }
}

bool ShardFetcher::LetGo(size_t shard) {
  Slot& slot = slots_[shard];
  if (!slot.file) return true;
  const std::byte* const data = slot.data.exchange(nullptr);
  if (slot.loans.load() != 0) {
    slot.data.store(data);
    return false;
  }
  slot.file.reset();
  return true;
}

void ShardFetcher::LetGoOfUnwanted() {
  for (auto it = unwanted_.begin(); it != unwanted_.end();) {
    it = awaited_.count(*it) == 0 && LetGo(*it) ? unwanted_.erase(it) : std::next(it);
  }
}

std::map<size_t, size_t> ShardFetcher::Wanted() const {
  std::map<size_t, size_t> wanted;
  for (const auto& [reader, shards] : wants_) {
    for (size_t i = 0; i < shards.size(); ++i) {
      const auto [it, is_new] = wanted.emplace(shards[i], i);
      it->second = std::min(it->second, i);
    }
  }
  return wanted;
}

bool ShardFetcher::MakeRoom(bool awaited) {
  const std::lock_guard lock(mutex_);
  const std::map<size_t, size_t> wanted = Wanted();
  struct Candidate {
    bool is_wanted;
    uint64_t order;
    size_t shard;
  };
  std::vector<Candidate> candidates;
  for (size_t s = 0; s < num_shards_; ++s) {
    if (!slots_[s].file || awaited_.count(s) > 0) continue;
    const auto it = wanted.find(s);
    if (it == wanted.end()) {
      candidates.push_back({false, slots_[s].used.load(std::memory_order_relaxed), s});
    } else if (awaited) {
      candidates.push_back({true, num_shards_ - it->second, s});
    }
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::pair(a.is_wanted, a.order) < std::pair(b.is_wanted, b.order);
  });
  return std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& c) { return LetGo(c.shard); });
}

}  // namespace antiphon::data
