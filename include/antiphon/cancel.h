// A way to stop work that another thread does.
//
//   const antiphon::CancelToken stop;
//   std::thread worker([&] { recognizer.RecognizeFile("day.wav", {.cancel = stop}); });
//   stop.Cancel();               // the call ends soon with an error of the kind kCancelled
//
// Work looks at its token between its steps: every few seconds of speech, and before each piece of a stream. What takes
// no token of its own (a FrameStore, a FrontEnd, a Model, TrainG2p) looks at that of a CancelWith around it.
// Ownership: copies are the same token, and moving one copies it. Threads: any thread may use one at any time, and a
// signal handler may cancel; a CancelWith belongs to the thread that made it. Errors: none but for memory.
#pragma once

#include <atomic>
#include <memory>

#include "antiphon/export.h"

namespace antiphon {

class CancelToken {
 public:
  /// A new token, not asked to stop.
  CancelToken() : flag_(std::make_shared<std::atomic<bool>>(false)) {}
  CancelToken(const CancelToken&) = default;
  CancelToken& operator=(const CancelToken&) = default;
  ~CancelToken() = default;

  /// Asks to stop; there is no way back.
  void Cancel() const { flag_->store(true); }
  bool cancelled() const { return flag_->load(); }

 private:
  friend struct CancelTokenAccess;
  std::shared_ptr<std::atomic<bool>> flag_;
};

/// While it lives, what the calling thread asks of the library ends soon once `token` is cancelled. Of several, the
/// innermost counts; a token among a call's own settings goes before it.
class ANTIPHON_API CancelWith {
 public:
  explicit CancelWith(CancelToken token);
  ~CancelWith();
  CancelWith(const CancelWith&) = delete;
  CancelWith& operator=(const CancelWith&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace antiphon
