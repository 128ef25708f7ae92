// Where the program's log goes: standard error, as short coloured lines on a terminal, as plain timestamped ones
// elsewhere.
#pragma once

namespace antiphon::app {

/// verbosity: −1 warnings only, 0 normal, 1 with details.
void InstallLogSink(int verbosity);

}  // namespace antiphon::app
