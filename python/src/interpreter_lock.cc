#include "interpreter_lock.h"

#include <unistd.h>

#include <chrono>
#include <exception>

namespace antiphon::python {

WithoutLock::~WithoutLock() {
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {  // the unwinding of pthread_exit, which must not go on
    for (;;) ::pause();
  }
}

void Call::InPython(std::function<void()> f) {
  std::unique_lock lock(mutex_);
  errand_ = std::move(f);
  changed_.notify_all();
  changed_.wait(lock, [&] { return !errand_; });
}

void Call::End() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void Call::Attend() {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(50);
  std::exception_ptr raised;
  const auto check = [&](auto&& f) {
    try {
      if (!raised) f();
    } catch (...) {
      raised = std::current_exception();
      cancel.Cancel();
    }
  };
  for (bool ended = false; !ended;) {
    const bool asked = Unlocked([&] {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kBetweenLooks, [&] { return ended_ || errand_; });
      ended = ended_;
      return static_cast<bool>(errand_);
    });
    PassOn();
    if (asked) {
      check(errand_);  // the work waits for it
      PassOn();
      Unlocked([&] {
        const std::lock_guard lock(mutex_);
        errand_ = {};
        changed_.notify_all();
      });
    }
    check([] {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    });
  }
  if (raised) std::rethrow_exception(raised);
}

bool HearsSignals() {
  const nb::object main = nb::module_::import_("threading").attr("main_thread")();
  return nb::cast<unsigned long>(main.attr("ident")) == PyThread_get_thread_ident();
}

}  // namespace antiphon::python
