// How long the thread that talks to MPI rests between two looks for messages.
//
// While a rank of this process waits, or something is under way, it looks at once, giving way to other threads, and
// then every 20 µs. Nobody waits in a process whose ranks all compute, but others may want to be served by it, and
// what they want comes in conversations: a parameter server is asked for a verdict, then given a change, then asked for
// values. So for 5 ms behind the last message arrivals are looked for every 50 µs, without spinning, as the cores
// belong to the arithmetic; and then once in a millisecond.
// Threads: one owner.
#pragma once

#include <chrono>

namespace antiphon::comm {

class LookPace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kEagerRest{20};
  static constexpr std::chrono::microseconds kAttentiveRest{50};
  static constexpr std::chrono::microseconds kLazyRest{1000};
  static constexpr std::chrono::milliseconds kConversation{5};
  static constexpr int kEagerLooks = 50;

  /// What to rest for behind a look at which something `happened` or not; 0: none, but for others' turn. `awaited`: a
  /// rank of this process waits for messages, or some of its own have not left yet.
  std::chrono::microseconds After(bool happened, bool awaited, Clock::time_point now) {
    idle_looks_ = happened ? 0 : idle_looks_ + 1;
    if (happened) {
      last_ = now;
      talking_ = true;
    }
    if (awaited && idle_looks_ < kEagerLooks) return std::chrono::microseconds(0);
    if (awaited) return kEagerRest;
    talking_ = talking_ && now - last_ < kConversation;
    return talking_ ? kAttentiveRest : kLazyRest;
  }
  /// Behind a look that failed: there is no hurry any more.
  void GiveUp() {
    idle_looks_ = kEagerLooks;
    talking_ = false;
  }

 private:
  int idle_looks_ = 0;
  bool talking_ = false;
  Clock::time_point last_;
};

}  // namespace antiphon::comm
