#include "base/try_thread.h"

#include <atomic>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

#include "base/cancel.h"
#include "base/log.h"

namespace antiphon {

bool TryThread(std::vector<std::thread>& threads, std::function<void()> body) {
  const char* why = nullptr;
  try {
    threads.emplace_back(std::move(body));
    return true;
  } catch (const std::system_error&) {
    why = "limits of processes: ulimit -u, pids.max of the control group";
  } catch (const std::bad_alloc&) {
    why = "memory";
  }
  static std::once_flag once;
  std::call_once(once, [&] { log::Warn("the system gives no more threads than {} here ({})", threads.size(), why); });
  return false;
}

std::vector<std::thread> TryThreads(size_t count, const std::function<void()>& work) {
  const std::atomic<bool>* const cancelled = CancelScope::Current();
  std::vector<std::thread> threads;
  while (threads.size() < count && TryThread(threads, [cancelled, work] {
           const CancelScope scope(cancelled);
           work();
         })) {
  }
  return threads;
}

}  // namespace antiphon
