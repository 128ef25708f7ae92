// How a public Stream is made.
#pragma once

#include <memory>

#include "antiphon/stream.h"
#include "api/live_recognizer.h"
#include "api/recognizer_impl.h"

namespace antiphon {

struct StreamAccess {
  static Stream Make(std::shared_ptr<const RecognizerAccess::Impl> recognizer, int sample_rate_hz,
                     const StreamSettings& settings);
};

/// Those that `antiphon listen` and C programs give as options; all others are the defaults.
StreamSettings SettingsOf(const LiveOptions& options);

}  // namespace antiphon
