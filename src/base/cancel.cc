#include "base/cancel.h"

#include <signal.h>
#include <unistd.h>

#include "base/error.h"

namespace antiphon {
namespace {

std::atomic<bool> requested{false};
thread_local const std::atomic<bool>* requested_here = nullptr;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

// A terminal that closes may send SIGHUP twice, by the system and by the shell: that is one request, not two.
extern "C" void OnSignal(int signal) {
  if (requested.exchange(true) && signal != SIGUSR1 && signal != SIGHUP) ::_exit(1);
}

}  // namespace

bool CancelRequested() {
  return requested.load(std::memory_order_relaxed) ||
         (requested_here != nullptr && requested_here->load(std::memory_order_relaxed));
}

void RequestCancel() { requested.store(true); }

void ResetCancel() { requested.store(false); }

CancelScope::CancelScope(const std::atomic<bool>* flag) : before_(requested_here) { requested_here = flag; }
const std::atomic<bool>* CancelScope::Current() { return requested_here; }
CancelScope::~CancelScope() { requested_here = before_; }

void ThrowIfCancelled(std::string_view doing) {
  if (CancelRequested()) Throw<Cancelled>("stopped on request while {}", doing);
}

void InstallCancelHandlers() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGUSR1, &action, nullptr);
  // Who started the program with nohup wants it to outlive the terminal.
  struct sigaction before {};
  ::sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

}  // namespace antiphon
