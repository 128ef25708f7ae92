#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/cancel.h"
#include "base/check.h"
#include "data/minibatch_pool.h"

namespace antiphon::data {
namespace {

constexpr auto kBetweenRequests = std::chrono::milliseconds(50);

}  // namespace

struct MinibatchStream::Impl {
  // Step `first` and those behind it; `common`: of the epoch's common order, else of the rank's share.
  Impl(std::shared_ptr<const MinibatchPool> p, int r, const Stripe& s, bool common, int64_t steps, int64_t first)
      : pool(std::move(p)),
        rank(r),
        stripe(s),
        from_common_order(common),
        num_steps(steps),
        consumed(first),
        produced(first),
        buffers(static_cast<size_t>(pool->options().prefetch) + 1) {
    CHECK(first >= 0 && first <= num_steps) << "step " << first << " of " << num_steps;
    if (pool->options().prefetch > 0) thread = std::thread([this] { Produce(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    if (thread.joinable()) thread.join();
  }

  MinibatchBuffer& Slot(int64_t step) { return buffers[static_cast<size_t>(step) % buffers.size()]; }

  void FillStep(int64_t step) {
    if (!from_common_order) return pool->Fill(stripe.epoch, rank, step, Slot(step));
    if (stripe.offset >= stripe.stride) return pool->Fill(stripe.epoch, rank, -1, Slot(step));
    const int64_t place = step * stripe.stride + stripe.offset;
    const auto extra = std::ssize(stripe.before);
    const MinibatchId m = place < extra ? stripe.before[static_cast<size_t>(place)]
                                        : MinibatchId{stripe.epoch, stripe.first + place - extra};
    pool->Fill(m.epoch, rank, m.index, Slot(step));
  }

  void Produce() {
    const CancelScope scope(&stop);
    try {
      for (int64_t step = produced; step < num_steps; ++step) {
        {
          // The slot that the consumer looks at, step consumed − 1, must stay as it is.
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return stop || step < consumed + std::ssize(buffers) - 1; });
          if (stop) return;
        }
        FillStep(step);
        const std::lock_guard lock(mutex);
        produced = step + 1;
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      changed.notify_all();
    }
  }

  Minibatch* Next() {
    if (consumed == num_steps) return nullptr;
    const auto start = std::chrono::steady_clock::now();
    if (!thread.joinable()) {
      FillStep(consumed);
      ++consumed;
    } else {
      std::unique_lock lock(mutex);
      // What lies on a server may be long in coming.
      while (!changed.wait_for(lock, kBetweenRequests, [&] { return failure || produced > consumed; })) {
        if (pool->is_remote()) ThrowIfCancelled("waiting for training data from a server");
      }
      if (produced <= consumed) std::rethrow_exception(failure);
      ++consumed;
      changed.notify_all();
    }
    stall_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return &Slot(consumed - 1).minibatch;
  }

  const std::shared_ptr<const MinibatchPool> pool;
  const int rank;
  const Stripe stripe;
  const bool from_common_order;
  const int64_t num_steps;
  std::mutex mutex;
  std::condition_variable changed;
  int64_t consumed;  // steps handed out
  int64_t produced;  // steps ready
  std::atomic<bool> stop = false;
  std::exception_ptr failure;
  std::vector<MinibatchBuffer> buffers;
  double stall_seconds = 0.0;
  std::thread thread;
};

MinibatchStream::MinibatchStream(std::shared_ptr<const MinibatchPool> pool, int rank, int64_t epoch, int64_t first_step)
    : impl_(std::make_unique<Impl>(pool, rank, Stripe{epoch, 0, rank, pool->world_size(), {}},
                                   pool->options().distribution == Distribution::kPool, pool->steps_per_epoch(epoch),
                                   first_step)) {}
MinibatchStream::MinibatchStream(std::shared_ptr<const MinibatchPool> pool, const Stripe& stripe) {
  CHECK(pool->options().distribution == Distribution::kPool) << "shares have no common order";
  CHECK(stripe.stride > 0 && stripe.offset >= 0) << stripe.offset << " of " << stripe.stride;
  const int64_t rest =
      std::max<int64_t>(0, pool->num_minibatches(stripe.epoch) - stripe.first) + std::ssize(stripe.before);
  impl_ = std::make_unique<Impl>(std::move(pool), 0, stripe, true, (rest + stripe.stride - 1) / stripe.stride, 0);
}
MinibatchStream::~MinibatchStream() = default;

Minibatch* MinibatchStream::Next() { return impl_->Next(); }
int64_t MinibatchStream::step() const { return impl_->consumed; }
double MinibatchStream::stall_seconds() const { return impl_->stall_seconds; }

}  // namespace antiphon::data
