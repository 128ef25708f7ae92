// Other programs, started without a shell.
//
// Threads: safe together. Errors: IoError naming the program if it cannot be started; Cancelled if a signal ended it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace antiphon {

/// What becomes of the program when somebody asks to stop (base/cancel.h): it is waited for, as it heard of it itself
/// and saves what it has; or it is ended, and Cancelled thrown. With kEnd it runs in a process group of its own and
/// ends with all that it started; with kEndAlone it stays in ours, so that whoever ends our group ends it, too.
enum class OnCancel { kWait, kEnd, kEndAlone };

/// Runs a program (a path, or a name to look for in PATH) with its arguments and waits; returns its exit status,
/// nullopt if there is no such program. With `messages`, what it writes to standard error goes into that file; with
/// `output`, what it writes to standard output into that open one.
std::optional<int> RunProgram(const std::vector<std::string>& words, const std::filesystem::path& messages = {},
                              OnCancel on_cancel = OnCancel::kWait, int output = -1);

}  // namespace antiphon
