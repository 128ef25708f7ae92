// One write to disk at a time, behind the arithmetic.
//
// Threads: one calls; `write` runs on a thread of its own. Errors: what `write` threw, from Finish.
#pragma once

#include <functional>
#include <future>

namespace antiphon::train {

class BackgroundWrite {
 public:
  BackgroundWrite() = default;
  BackgroundWrite(const BackgroundWrite&) = delete;
  ~BackgroundWrite() { Wait(); }

  /// What `write` needs must be its own. The one before must be finished.
  void Begin(std::function<void()> write);
  bool under_way() const { return result_.valid(); }
  /// Waits, and throws what went wrong, once. Nothing if none is under way.
  void Finish() {
    if (under_way()) result_.get();
  }
  /// Waits; what went wrong is still to be thrown.
  void Wait() const {
    if (under_way()) result_.wait();
  }

 private:
  std::future<void> result_;
};

}  // namespace antiphon::train
