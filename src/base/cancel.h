// A request to stop, from a signal or a caller, that long work looks at between its steps.
//
// Programs install the handlers; the library only asks. The first SIGINT, SIGTERM or SIGHUP sets the flag, so that work
// can be saved and the person told how to go on; a second SIGINT or SIGTERM ends the process at once. Threads:
// everything here may be called from any thread.
#pragma once

#include <atomic>
#include <string_view>

namespace antiphon {

/// True once somebody asked to stop: everything, or what the calling thread does within a CancelScope.
bool CancelRequested();
/// Asks, as a signal does.
void RequestCancel();
/// Forgets the request (between runs in one process; tests).
void ResetCancel();
/// Throws Cancelled("stopped on request while DOING") if somebody asked to stop.
void ThrowIfCancelled(std::string_view doing);

/// While it lives, the calling thread is asked to stop where `flag` is true; null: by RequestCancel alone. The
/// innermost scope counts; the flag must outlive it. Threads that the calling one starts do not look at the flag unless
/// they open a scope with its Current(), as the ranks of a training do.
class CancelScope {
 public:
  explicit CancelScope(const std::atomic<bool>* flag);
  /// The calling thread's flag; null: none.
  static const std::atomic<bool>* Current();
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

 private:
  const std::atomic<bool>* before_;
};

/// Makes SIGINT and SIGTERM ask to stop; the second one ends the process with status 1. SIGUSR1 and SIGHUP only ask:
/// the one is what mpirun passes on, and what batch systems send before a time limit, the other comes when the terminal
/// closes, perhaps twice. SIGHUP that is ignored, as under nohup, stays so.
void InstallCancelHandlers();

}  // namespace antiphon
