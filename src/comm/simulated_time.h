// The clock of a simulated cluster, which has to be told of work that is not a message.
//
// A communicator whose time is simulated offers it (Communicator::simulation).
// Units: seconds on a device of kReferenceFlops. Threads: as the communicator that offers it.
#pragma once

#include <cstddef>
#include <string_view>

namespace antiphon::comm {

/// What happens to values that are exchanged: copied to their place, added, or written and read by a codec.
enum class Handling { kCopy, kAdd, kEncode, kDecode };

class SimulatedTime {
 public:
  static constexpr double kReferenceFlops = 1e9;  // per second

  /// The caller computed for so long on the reference device.
  virtual void Compute(double seconds) = 0;
  /// The caller handled `bytes` of values, with the codec of that name.
  virtual void Handled(Handling what, size_t bytes, std::string_view codec) = 0;

 protected:
  ~SimulatedTime() = default;
};

}  // namespace antiphon::comm
