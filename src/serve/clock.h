// Seconds of a clock that never goes back.
#pragma once

#include <chrono>

namespace antiphon::serve {

inline double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace antiphon::serve
