#include "comm/rank_threads.h"

#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/cancel.h"

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
  const std::atomic<bool>* const cancelled = CancelScope::Current();
  for (int rank = first; rank < first + count; ++rank) {
    threads.emplace_back([&, rank] {
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
      } catch (const Cancelled&) {
        error.Set(rank);  // all ranks agreed on it
      } catch (const std::exception& e) {
        fail(AbortReason::Of(e));
      } catch (...) {
        fail({"unknown error"});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  error.Rethrow();
  for (const char l : lost) {
    if (!l) return;
  }
  loss.Rethrow();
}

}  // namespace antiphon::comm
