// Serves a rank's requests while its own thread computes.
//
// `wait` blocks until there may be something to serve, or a little while; `serve` then runs under `mutex`, which the
// rank's thread holds whenever it uses what is served. What serve throws ends the thread, and is thrown again by Check.
// Threads: constructed, checked and destroyed by the rank's thread, without the mutex.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace antiphon::parallel {

class ServingThread {
 public:
  ServingThread(std::mutex& mutex, std::function<void()> wait, std::function<void()> serve);
  ~ServingThread();
  ServingThread(const ServingThread&) = delete;
  ServingThread& operator=(const ServingThread&) = delete;

  void Check() const;

 private:
  void Run();

  std::mutex& mutex_;
  std::function<void()> wait_;
  std::function<void()> serve_;
  std::exception_ptr error_;  // before failed_
  std::atomic<bool> failed_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace antiphon::parallel
