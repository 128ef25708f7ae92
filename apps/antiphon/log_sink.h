// Where the program's log goes: standard error, as short coloured lines on a terminal, as plain timestamped ones
// elsewhere; and into a file besides, if somebody says so. Not while others write to the log.
#pragma once

#include <filesystem>

namespace antiphon::app {

/// verbosity: −1 warnings only, 0 normal, 1 with details.
void InstallLogSink(int verbosity);
/// On standard error, warnings alone from now on, with the number of the process.
void ShowWarningsOf(int process);
/// Everything but details goes behind what is in `file`, too, whatever standard error shows. A file that cannot be
/// written is warned of.
void AlsoLogTo(const std::filesystem::path& file);

}  // namespace antiphon::app
