#include "comm/rank_threads.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/cancel.h"
#include "base/try_thread.h"
#include "comm/process_group.h"

namespace antiphon::comm {
namespace {

// What went wrong first.
class FirstError {
 public:
  void Set(int rank) {
    const std::lock_guard lock(mutex_);
    if (!error_) {
      error_ = std::current_exception();
      rank_ = rank;
    }
  }
  void Rethrow() const {
    if (error_) WithContext([&] { std::rethrow_exception(error_); }, [&] { return fmt::format("rank {}", rank_); });
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  int rank_ = -1;
};

}  // namespace

void RunRankThreads(int first, int count, const std::function<std::unique_ptr<Communicator>(int rank)>& connect,
                    const std::function<void(Communicator&)>& body) {
  std::vector<std::unique_ptr<Communicator>> comms;
  for (int rank = first; rank < first + count; ++rank) comms.push_back(connect(rank));
  FirstError error;
  FirstError loss;
  std::vector<char> lost(static_cast<size_t>(count), 0);
  std::vector<std::thread> threads;
  enum Start { kNotYet, kGo, kNever };
  std::atomic<Start> start = kNotYet;
  const std::atomic<bool>* const cancelled = CancelScope::Current();
  const auto run = [&](int rank) {
    start.wait(kNotYet);
    if (start == kNever) return;
    const CancelScope scope(cancelled);
    std::unique_ptr<Communicator> comm = std::move(comms[static_cast<size_t>(rank - first)]);
    const auto fail = [&](const AbortReason& reason) {
      error.Set(rank);
      comm->Abort(reason);
    };
    try {
      body(*comm);
    } catch (const RankLost&) {
      if (LossTolerance* const losses = comm->losses()) losses->BecomeLost();
      loss.Set(rank);
      lost[static_cast<size_t>(rank - first)] = 1;
    } catch (const PeerLost&) {
      error.Set(rank);
    } catch (const AgreedToStop&) {
      error.Set(rank);
    } catch (const WorldEnds&) {
      error.Set(rank);
    } catch (const std::exception& e) {
      fail(AbortReason::Of(e));
    } catch (...) {
      fail({"unknown error"});
    }
  };
  // None begins before all are there: it would wait for others that never come.
  for (int rank = first; rank < first + count && TryThread(threads, [&run, rank] { run(rank); }); ++rank) {
  }
  const bool all = std::ssize(threads) == count;
  start = all ? kGo : kNever;
  start.notify_all();
  for (std::thread& thread : threads) thread.join();
  if (!all) {
    const std::string what = fmt::format(
        "{} of this process's {} ranks got a thread: ask for fewer workers, or for a higher limit (ulimit -u, ulimit "
        "-v, the container's pids)",
        threads.size(), count);
    comms.front()->Abort({what});
    throw IoError(what);
  }
  error.Rethrow();
  for (const char l : lost) {
    if (!l) return;
  }
  loss.Rethrow();
}

}  // namespace antiphon::comm
