// A way to stop work that another thread does.
//
//   const antiphon::CancelToken stop;
//   std::thread worker([&] { recognizer.RecognizeFile("day.wav", {.cancel = stop}); });
//   stop.Cancel();               // the call ends soon with an error of the kind kCancelled
//
// Work looks at its token between its steps: every few seconds of speech, and before each piece of a stream.
// Ownership: copies are the same token. Threads: any thread may use one at any time, and a signal handler may cancel.
#pragma once

#include <atomic>
#include <memory>

namespace antiphon {

class CancelToken {
 public:
  /// A new token, not asked to stop.
  CancelToken() : flag_(std::make_shared<std::atomic<bool>>(false)) {}

  /// Asks to stop; there is no way back.
  void Cancel() const { flag_->store(true); }
  bool cancelled() const { return flag_->load(); }

 private:
  friend struct CancelTokenAccess;
  std::shared_ptr<std::atomic<bool>> flag_;
};

}  // namespace antiphon
