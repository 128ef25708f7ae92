#include "comm/thread_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>

#include "base/check.h"
#include "base/error.h"
#include "comm/rank_threads.h"

namespace antiphon::comm {

// One mailbox per rank; one lock for all, as messages are few and large.
struct ThreadWorld::State {
  struct Letter {
    int source;
    int tag;
    std::vector<std::byte> bytes;
  };
  explicit State(int world_size) : size(world_size), mailboxes(static_cast<size_t>(world_size)) {}

  const int size;
  std::mutex mutex;
  std::condition_variable arrived;
  std::vector<std::deque<Letter>> mailboxes;                // guarded by mutex
  std::map<std::pair<int, int>, std::span<float>> windows;  // (rank, id); guarded by mutex
  std::string abort_message;                                // guarded by mutex
  bool aborted = false;                                     // guarded by mutex
};

namespace {

using State = ThreadWorld::State;

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<State> state, int rank) : state_(std::move(state)), rank_(rank) {}

  int rank() const override { return rank_; }
  int world_size() const override { return state_->size; }

  void Send(int destination, int tag, std::span<const std::byte> bytes) override {
    CHECK(destination >= 0 && destination < state_->size) << destination;
    if (destination != rank_) CountSent(bytes.size());
    State::Letter letter{rank_, tag, {bytes.begin(), bytes.end()}};
    {
      const std::lock_guard lock(state_->mutex);
      ThrowIfAborted(fmt::format("sending to rank {}", destination));
      state_->mailboxes[static_cast<size_t>(destination)].push_back(std::move(letter));
    }
    state_->arrived.notify_all();
  }

  Message Receive(int source, int tag) override {
    std::unique_lock lock(state_->mutex);
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(deadline_seconds());
    for (;;) {
      ThrowIfAborted(Receiving(source));
      auto& mailbox = state_->mailboxes[static_cast<size_t>(rank_)];
      if (const auto found = Find(source, tag); found != mailbox.end()) {
        Message message{found->source, std::move(found->bytes)};
        mailbox.erase(found);
        return message;
      }
      if (state_->arrived.wait_until(lock, end) == std::cv_status::timeout && !HasLetter(source, tag)) {
        ThrowIfAborted(Receiving(source));
        Throw<PeerError>("{}: no message within {} s", Describe(Receiving(source)), deadline_seconds());
      }
    }
  }

  bool Poll(int source, int tag) override {
    const std::lock_guard lock(state_->mutex);
    ThrowIfAborted("looking for messages");
    return HasLetter(source, tag);
  }

  void OpenWindow(int id, std::span<float> memory) override {
    {
      const std::lock_guard lock(state_->mutex);
      state_->windows[{rank_, id}] = memory;
    }
    Barrier();
  }
  void CloseWindow(int id) override {
    Barrier();
    const std::lock_guard lock(state_->mutex);
    state_->windows.erase({rank_, id});
  }

  void Accumulate(int target, int id, size_t offset, float scale, std::span<const float> values) override {
    const std::span<float> memory = Window(target, id, offset, values.size());
    if (target != rank_) CountSent(values.size_bytes());
    for (size_t i = 0; i < values.size(); ++i) {
      std::atomic_ref<float>(memory[i]).fetch_add(scale * values[i], std::memory_order_relaxed);
    }
  }
  void Get(int target, int id, size_t offset, std::span<float> values) override {
    const std::span<float> memory = Window(target, id, offset, values.size());
    if (target != rank_) CountSent(values.size_bytes());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = std::atomic_ref<float>(memory[i]).load(std::memory_order_relaxed);
    }
  }

  double Now() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  void Abort(std::string_view message) override {
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->aborted) state_->abort_message = fmt::format("rank {} failed: {}", rank_, message);
      state_->aborted = true;
    }
    state_->arrived.notify_all();
  }

 private:
  static std::string Receiving(int source) {
    return source == kAnySource ? "receiving from any rank" : fmt::format("receiving from rank {}", source);
  }
  std::deque<State::Letter>::iterator Find(int source, int tag) {
    auto& mailbox = state_->mailboxes[static_cast<size_t>(rank_)];
    return std::find_if(mailbox.begin(), mailbox.end(), [&](const State::Letter& letter) {
      return letter.tag == tag && (source == kAnySource || letter.source == source);
    });
  }
  bool HasLetter(int source, int tag) {
    return Find(source, tag) != state_->mailboxes[static_cast<size_t>(rank_)].end();
  }
  void ThrowIfAborted(std::string_view operation) const {
    if (state_->aborted) Throw<PeerError>("{}: {}", Describe(operation), state_->abort_message);
  }
  std::span<float> Window(int target, int id, size_t offset, size_t size) {
    const std::lock_guard lock(state_->mutex);
    ThrowIfAborted(fmt::format("one-sided access to rank {}", target));
    const auto found = state_->windows.find({target, id});
    CHECK(found != state_->windows.end()) << "window " << id << " of rank " << target << " is not open";
    CHECK_LE(offset + size, found->second.size());
    return found->second.subspan(offset, size);
  }

  std::shared_ptr<State> state_;
  int rank_;
};

}  // namespace

ThreadWorld::ThreadWorld(int world_size) : state_(std::make_shared<State>(world_size)) { CHECK_GE(world_size, 1); }
ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::Connect(int rank) {
  CHECK(rank >= 0 && rank < state_->size) << rank;
  return std::make_unique<ThreadCommunicator>(state_, rank);
}

std::unique_ptr<Communicator> MakeSelfCommunicator() { return ThreadWorld(1).Connect(0); }

void RunRanks(int world_size, const std::function<void(Communicator&)>& body) {
  ThreadWorld world(world_size);
  RunRankThreads(
      world_size, [&](int rank) { return world.Connect(rank); }, body);
}

}  // namespace antiphon::comm
