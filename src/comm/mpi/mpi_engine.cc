#include "comm/mpi/mpi_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/error.h"
#include "comm/mpi/look_pace.h"
#include "comm/mpi/mpi_calls.h"
#include "comm/process_group.h"

namespace antiphon::comm {
namespace {

// Deadlines of what all processes do together outside of a world: starting (the others may still read their program
// from a busy file server), agreeing, leaving.
constexpr std::chrono::seconds kStartDeadline{300};
constexpr std::chrono::seconds kAgreeDeadline{600};
constexpr std::chrono::seconds kLeaveDeadline{30};

struct Queued {
  int process;
  std::vector<std::byte> bytes;
};

// A machine's number is that of its first process.
std::vector<int> NodesOfRanks(const MpiEngine::Place& place, int world_size) {
  std::vector<int> nodes;
  for (int p = 0; p < place.num_processes; ++p) {
    const auto first = std::find(place.hosts.begin(), place.hosts.end(), place.hosts[static_cast<size_t>(p)]);
    const int ranks =
        FirstRankOf(p + 1, place.num_processes, world_size) - FirstRankOf(p, place.num_processes, world_size);
    nodes.insert(nodes.end(), static_cast<size_t>(ranks), static_cast<int>(first - place.hosts.begin()));
  }
  return nodes;
}

std::vector<std::string> MachinesOfRanks(const MpiEngine::Place& place, int world_size) {
  std::vector<std::string> machines;
  for (const int node : NodesOfRanks(place, world_size)) machines.push_back(place.hosts[static_cast<size_t>(node)]);
  return machines;
}

}  // namespace

struct MpiEngine::Impl {
  // Set by the thread before it is ready, or while all others wait for it.
  Place place;
  bool survives_losses = false;

  std::mutex mutex;
  std::condition_variable work;  // for the thread
  std::condition_variable drained;
  std::deque<Queued> queue;                         // guarded by mutex
  std::deque<std::function<void()>> tasks;          // guarded by mutex; for the thread, between messages
  size_t unsent = 0;                                // guarded by mutex: queued or under way
  bool stop = false;                                // guarded by mutex
  std::map<uint32_t, std::shared_ptr<Hub>> worlds;  // guarded by mutex
  std::map<uint32_t, std::vector<std::pair<Envelope, std::vector<std::byte>>>> early;  // guarded by mutex
  uint32_t next_world = 0;                                                             // guarded by mutex
  std::vector<bool> lost;                                                              // guarded by mutex; per process
  std::string failure;  // guarded by mutex: why nothing can be carried any more
  std::atomic<int> waiting = 0;
  std::atomic<bool> succeeded = false;
  std::promise<void> ready;
  std::promise<void> ended;

  void Thread(const std::string& version);
  void Serve(MpiCalls& mpi);
  bool MoveOn(MpiCalls& mpi);
  void RunTasks();
  void Give(int from, std::vector<std::byte> message);
  void AbortEverywhere(const AbortReason& reason);
  void Queue(const Envelope& envelope, std::span<const std::byte> bytes);
  std::vector<int> Targets(const Envelope& envelope);
  void NoteLosses(MpiCalls& mpi);
  void Fail(const std::string& message);
  template <class T>
  T Ask(std::function<T()> task, const char* what);

  MpiCalls* calls = nullptr;  // the thread's, for tasks
};

void MpiEngine::Impl::Thread(const std::string& version) {
  bool is_ready = false;
  try {
    MpiCalls mpi;
    calls = &mpi;
    mpi.CheckSameProgram(version);
    place = mpi.place();
    survives_losses = mpi.survives_losses();
    lost.assign(static_cast<size_t>(place.num_processes), false);
    is_ready = true;
    ready.set_value();
    Serve(mpi);
    if (succeeded) mpi.Finalize();
  } catch (...) {
    if (!is_ready) ready.set_exception(std::current_exception());
  }
  ended.set_value();
}

void MpiEngine::Impl::Serve(MpiCalls& mpi) {
  LookPace pace;
  for (;;) {
    bool happened = false;
    try {
      happened = MoveOn(mpi);
    } catch (const std::exception& e) {
      Fail(e.what());
      pace.GiveUp();
    }
    std::unique_lock lock(mutex);
    if (stop && (queue.empty() || !failure.empty())) return;
    const std::chrono::microseconds rest = pace.After(happened, waiting > 0 || unsent > 0, LookPace::Clock::now());
    if (!queue.empty() || !tasks.empty()) continue;
    if (rest.count() == 0) {
      lock.unlock();
      std::this_thread::yield();
    } else {
      work.wait_for(lock, rest);
    }
  }
}

// One round; true if anything happened.
bool MpiEngine::Impl::MoveOn(MpiCalls& mpi) {
  RunTasks();
  std::deque<Queued> outgoing;
  {
    const std::lock_guard lock(mutex);
    outgoing.swap(queue);
  }
  for (Queued& message : outgoing) mpi.StartSend(message.process, std::move(message.bytes));
  const size_t sent = mpi.FinishSends();
  if (sent > 0) {
    const std::lock_guard lock(mutex);
    unsent -= sent;
    if (unsent == 0) drained.notify_all();
  }
  const bool received =
      mpi.Receive([this](int from, std::vector<std::byte> message) { Give(from, std::move(message)); });
  if (mpi.LossesChanged()) NoteLosses(mpi);
  return received || sent > 0 || !outgoing.empty();
}

void MpiEngine::Impl::RunTasks() {
  for (;;) {
    std::function<void()> task;
    {
      const std::lock_guard lock(mutex);
      if (tasks.empty()) return;
      task = std::move(tasks.front());
      tasks.pop_front();
    }
    task();
  }
}

void MpiEngine::Impl::Give(int from, std::vector<std::byte> message) {
  Envelope envelope;
  try {
    envelope = OpenEnvelope(from, message);
  } catch (const PeerError& e) {
    return AbortEverywhere({fmt::format("process {}: {}", place.process, e.what())});
  }
  std::shared_ptr<Hub> hub;
  {
    const std::lock_guard lock(mutex);
    if (envelope.world >= next_world) {
      early[envelope.world].emplace_back(envelope, std::move(message));
      return;
    }
    const auto found = worlds.find(envelope.world);
    if (found == worlds.end()) return;  // that world is over
    hub = found->second;
  }
  hub->Arrived(envelope, std::move(message));
}

void MpiEngine::Impl::AbortEverywhere(const AbortReason& reason) {
  std::map<uint32_t, std::shared_ptr<Hub>> open;
  {
    const std::lock_guard lock(mutex);
    open = worlds;
  }
  for (const auto& [id, hub] : open) {
    Envelope envelope;
    envelope.kind = MessageKind::kAbort;
    envelope.world = id;
    envelope.destination = -1;
    const std::vector<std::byte> bytes = reason.ToBytes();
    envelope.size = bytes.size();
    Queue(envelope, bytes);
    hub->Abort(reason);
  }
}

// Messages are put together outside the lock, which the thread needs.
void MpiEngine::Impl::Queue(const Envelope& envelope, std::span<const std::byte> bytes) {
  for (const int process : Targets(envelope)) {
    std::vector<std::byte> message = SealEnvelope(envelope, bytes);
    const std::lock_guard lock(mutex);
    queue.push_back({process, std::move(message)});
    ++unsent;
  }
  work.notify_one();
}

// The living process of a rank, or all others.
std::vector<int> MpiEngine::Impl::Targets(const Envelope& envelope) {
  const std::lock_guard lock(mutex);
  if (!failure.empty()) throw PeerError(failure);
  const auto world = worlds.find(envelope.world);
  std::vector<int> targets;
  for (int p = 0; p < place.num_processes && world != worlds.end(); ++p) {
    if (p == place.process || lost[static_cast<size_t>(p)]) continue;
    const int first = FirstRankOf(p, place.num_processes, world->second->world_size());
    const int end = FirstRankOf(p + 1, place.num_processes, world->second->world_size());
    const bool meant = envelope.destination >= first && envelope.destination < end;
    if (meant || envelope.destination < 0) targets.push_back(p);
  }
  return targets;
}

void MpiEngine::Impl::NoteLosses(MpiCalls& mpi) {
  const std::vector<int> processes = mpi.LostProcesses();
  const std::lock_guard lock(mutex);
  for (const int p : processes) {
    lost[static_cast<size_t>(p)] = true;
    for (const auto& [id, hub] : worlds) {
      const int end = FirstRankOf(p + 1, place.num_processes, hub->world_size());
      for (int r = FirstRankOf(p, place.num_processes, hub->world_size()); r < end; ++r) hub->MarkLost(r);
    }
  }
}

void MpiEngine::Impl::Fail(const std::string& message) {
  std::map<uint32_t, std::shared_ptr<Hub>> open;
  {
    const std::lock_guard lock(mutex);
    if (failure.empty()) failure = message;
    unsent = 0;
    open = worlds;
  }
  drained.notify_all();
  for (const auto& [id, hub] : open) hub->Abort({message});
}

template <class T>
T MpiEngine::Impl::Ask(std::function<T()> task, const char* what) {
  auto answer = std::make_shared<std::promise<T>>();
  std::future<T> future = answer->get_future();
  {
    const std::lock_guard lock(mutex);
    tasks.push_back([answer, task = std::move(task)] {
      try {
        answer->set_value(task());
      } catch (...) {
        answer->set_exception(std::current_exception());
      }
    });
  }
  work.notify_one();
  if (future.wait_for(kAgreeDeadline) != std::future_status::ready) {
    Throw<PeerError>("process {} of {}: {}: the others did not answer within {} s", place.process, place.num_processes,
                     what, kAgreeDeadline.count());
  }
  return future.get();
}

MpiEngine::MpiEngine(std::string_view version) : impl_(std::make_shared<Impl>()) {
  std::future<void> ready = impl_->ready.get_future();
  std::thread([impl = impl_, text = std::string(version)] { impl->Thread(text); }).detach();
  if (ready.wait_for(kStartDeadline) != std::future_status::ready) {
    Throw<PeerError>("MPI did not start within {} s: not all processes came up", kStartDeadline.count());
  }
  ready.get();
}

MpiEngine::~MpiEngine() {
  std::future<void> ended = impl_->ended.get_future();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->work.notify_one();
  ended.wait_for(kLeaveDeadline);
}

MpiEngine::Place MpiEngine::place() const { return impl_->place; }
bool MpiEngine::survives_losses() const { return impl_->survives_losses; }

void MpiEngine::Send(const Envelope& envelope, std::span<const std::byte> bytes) { impl_->Queue(envelope, bytes); }

void MpiEngine::Waiting(int change) {
  impl_->waiting += change;
  if (change > 0) impl_->work.notify_one();
}

void MpiEngine::Drain(double seconds) {
  std::unique_lock lock(impl_->mutex);
  impl_->drained.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return impl_->unsent == 0; });
}

std::shared_ptr<Hub> MpiEngine::OpenWorld(int world_size) {
  const Place& place = impl_->place;
  const int first = FirstRankOf(place.process, place.num_processes, world_size);
  const int end = FirstRankOf(place.process + 1, place.num_processes, world_size);
  impl_->succeeded = false;
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->failure.empty()) throw PeerError(impl_->failure);
  const uint32_t id = impl_->next_world++;
  const auto hub = std::make_shared<Hub>(world_size, first, end - first, this, id, NodesOfRanks(place, world_size),
                                         MachinesOfRanks(place, world_size));
  impl_->worlds[id] = hub;
  for (int p = 0; p < place.num_processes; ++p) {
    if (!impl_->lost[static_cast<size_t>(p)]) continue;
    for (int r = FirstRankOf(p, place.num_processes, world_size);
         r < FirstRankOf(p + 1, place.num_processes, world_size); ++r) {
      hub->MarkLost(r);
    }
  }
  for (auto& [envelope, bytes] : impl_->early[id]) hub->Arrived(envelope, std::move(bytes));
  impl_->early.erase(id);
  return hub;
}

void MpiEngine::CloseWorld() {
  const std::lock_guard lock(impl_->mutex);
  impl_->worlds.clear();
}

// What was sent must have left before: nothing else moves while the thread agrees.
bool MpiEngine::Agree(bool value) {
  Drain(std::chrono::duration<double>(kAgreeDeadline).count());
  return impl_->Ask<bool>([this, value] { return impl_->calls->Agree(value); }, "agreeing on the end");
}

// What was meant for the processes by their old numbers is forgotten.
int MpiEngine::Shrink() {
  return impl_->Ask<int>(
      [impl = impl_.get()] {
        const int lost = impl->calls->Shrink();
        const std::lock_guard lock(impl->mutex);
        impl->place = impl->calls->place();
        impl->lost.assign(static_cast<size_t>(impl->place.num_processes), false);
        impl->queue.clear();
        impl->unsent = 0;
        return lost;
      },
      "going on without a lost process");
}

void MpiEngine::Succeeded() { impl_->succeeded = true; }

}  // namespace antiphon::comm
