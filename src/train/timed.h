// Time spent in a scope, added to a counter.
//
// Units: seconds.
#pragma once

#include <chrono>

namespace antiphon::train {

/// Adds the time until its end to a counter.
class Timed {
 public:
  explicit Timed(double& seconds) : seconds_(seconds), begin_(std::chrono::steady_clock::now()) {}
  Timed(const Timed&) = delete;
  ~Timed() { seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace antiphon::train
