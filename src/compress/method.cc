#include "compress/method.h"

#include "base/error.h"

namespace antiphon::compress {

InputFrames& RequireFrames(const MethodInput& input, const std::string& method) {
  if (input.frames == nullptr) {
    Throw<UsageError>("'{}' looks at frames: give a frame store (--store)", method);
  }
  return *input.frames;
}

}  // namespace antiphon::compress
