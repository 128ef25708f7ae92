// The interpreter's lock: given away around everything that takes time, and asked for again in one place.
//
// At the interpreter's end a thread that asks for its lock is ended by pthread_exit, whose unwinding no destructor of
// ours may see. Such a thread is parked for good instead, as CPython does itself from 3.14 on.
#pragma once

#include <antiphon/cancel.h>
#include <nanobind/nanobind.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

namespace antiphon::python {

namespace nb = nanobind;

/// While it lives, the calling thread does without the interpreter's lock.
class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  ~WithoutLock();
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;

 private:
  PyThreadState* state_;
};

/// Runs what takes time without the interpreter's lock.
template <class F>
auto Unlocked(F&& f) {
  const WithoutLock unlocked;
  return f();
}

/// A value whose end may take time: without the lock.
template <class T>
class EndedUnlocked {
 public:
  template <class... Args>
  requires std::is_constructible_v<T, Args...>
  explicit EndedUnlocked(Args&&... args) : value_(std::in_place, std::forward<Args>(args)...) {}
  ~EndedUnlocked() {
    const WithoutLock unlocked;
    value_.reset();
  }
  EndedUnlocked(const EndedUnlocked&) = delete;
  EndedUnlocked& operator=(const EndedUnlocked&) = delete;

  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }

 private:
  std::optional<T> value_;
};

/// What the library wants to be used by one thread at a time: Python's threads wait here for each other.
template <class T>
class OneAtATime {
 public:
  template <class... Args>
  requires std::is_constructible_v<T, Args...>
  explicit OneAtATime(Args&&... args) : value_(std::forward<Args>(args)...) {}

  template <class F>
  auto Use(F&& f) {
    const WithoutLock unlocked;
    const std::lock_guard lock(mutex_);
    return f(*value_);
  }

 private:
  std::mutex mutex_;
  EndedUnlocked<T> value_;
};

/// Work in a thread of its own, and the Python thread that waits for it, listening for Ctrl-C meanwhile.
class Call {
 public:
  /// `given`: the caller's own, which ends the work too; Ctrl-C ends this work alone.
  explicit Call(CancelToken given) : given_(std::move(given)) { PassOn(); }

  /// Of the work; the library's functions look at it by themselves.
  const CancelToken cancel;

  /// For the work: `f` is run by the Python thread, with the lock. What it raises cancels the work and ends the call.
  void InPython(std::function<void()> f);
  /// For the work's thread, when all is done.
  void End();
  /// For the Python thread: until the end. Throws then what a signal's handler, or InPython, raised meanwhile.
  void Attend();

 private:
  void PassOn() const {
    if (given_.cancelled()) cancel.Cancel();
  }

  const CancelToken given_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> errand_;  // guarded by mutex_, as is
  bool ended_ = false;
};

/// Runs work(call) and gives what it gives; Ctrl-C cancels it, and so does `given`.
template <class F>
auto UntilDone(F&& work, const CancelToken& given = {}) {
  struct AtEnd {
    ~AtEnd() { call.End(); }
    Call& call;
  };
  Call call(given);
  auto result = std::async(std::launch::async, [&] {
    const AtEnd end{call};
    const CancelWith scope(call.cancel);
    return work(call);
  });
  call.Attend();
  return result.get();
}

/// Whether this is the thread that Python's signal handlers run in.
bool HearsSignals();

/// The same for work that needs nothing from Python: only the thread that hears signals needs another one for it, and
/// not for work that is done before anybody could press a key.
template <class F>
auto Interruptible(F&& work, bool takes_long = true, const CancelToken& given = {}) {
  if (takes_long && HearsSignals()) return UntilDone([&](Call& call) { return work(call.cancel); }, given);
  return Unlocked([&] {
    const CancelWith scope(given);
    return work(given);
  });
}

}  // namespace antiphon::python
