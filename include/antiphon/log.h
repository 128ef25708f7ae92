// What the library says on its way: words of a list that a graph lacks, utterances that are left out, progress.
//
//   antiphon::SetLogCallback([](antiphon::LogLevel level, std::string_view message) { … });
//
// Without a callback it says nothing: it writes to no stream, no file and no other logger of the program.
// Threads: SetLogCallback may be called at any time; the callback is called from any thread, one call at a time, and
// not after SetLogCallback has put another one in its place. Messages hold for the time of the call. The callback must
// not call the library, nor throw (an exception is dropped). The process may be forked: a fork waits until a callback
// that is under way has returned, which therefore must not wait for a thread that may fork. It may fork itself. Errors:
// none but for memory.
#pragma once

#include <functional>
#include <string_view>

#include "antiphon/export.h"

namespace antiphon {

enum class LogLevel { kDebug, kInfo, kWarning };

/// One line, without a line break at its end, in UTF-8.
using LogCallback = std::function<void(LogLevel level, std::string_view message)>;

/// For the whole process; an empty callback: silence again. Messages below `least` are left out.
ANTIPHON_API void SetLogCallback(LogCallback callback, LogLevel least = LogLevel::kInfo);

}  // namespace antiphon
