#include "parallel/serving_thread.h"

#include <utility>

namespace antiphon::parallel {

ServingThread::ServingThread(std::mutex& mutex, std::function<void()> wait, std::function<void()> serve)
    : mutex_(mutex), wait_(std::move(wait)), serve_(std::move(serve)), thread_([this] { Run(); }) {}

ServingThread::~ServingThread() {
  stop_ = true;
  thread_.join();
}

void ServingThread::Check() const {
  if (failed_) std::rethrow_exception(error_);
}

void ServingThread::Run() {
  try {
    while (!stop_) {
      wait_();
      const std::lock_guard lock(mutex_);
      if (!stop_) serve_();
    }
  } catch (...) {
    error_ = std::current_exception();
    failed_ = true;
  }
}

}  // namespace antiphon::parallel
