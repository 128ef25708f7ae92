// What a communicator offers whose rank may be served by a second thread while the first computes.
//
// The second thread may wait here, and then look for messages, receive and send as the rank; the two must not send or
// receive at the same time, which their callers see to.
#pragma once

namespace antiphon::comm {

class SecondThread {
 public:
  virtual ~SecondThread() = default;
  /// False if this world's messages are for one thread per rank.
  virtual bool allowed() const = 0;
  /// By the second thread: returns when anything has come to the rank since this returned last, after `seconds`, or
  /// when the ranks have failed.
  virtual void AwaitNews(double seconds) = 0;
};

}  // namespace antiphon::comm
