// Another program, started without a shell, whose standard output is read while it runs.
//
// It does not see the signals of the terminal and gets nothing on its standard input, unless it is told otherwise, and
// is ended when the object goes.
// Threads: one per object. Errors: IoError naming the program.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/file_descriptor.h"

namespace antiphon {

struct RunningProgramOptions {
  bool shares_input = false;  // it gets our standard input
  bool own_group = true;      // else signals to our group are its own, too
};

class RunningProgram {
 public:
  /// A program (a path, or a name to look for in PATH) with its arguments; null if there is no such program. What it
  /// writes to standard error goes into the file `messages`.
  static std::unique_ptr<RunningProgram> Start(const std::vector<std::string>& words,
                                               const std::filesystem::path& messages,
                                               const RunningProgramOptions& options = {});
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  /// More of what it writes, at least a byte; 0 when it has closed its output; none if nothing came for so long.
  std::optional<size_t> Read(std::span<std::byte> bytes, double timeout_s);
  /// After the end of its output: its exit status, or 128 and the number of the signal that ended it. None if it is
  /// still there after so long.
  std::optional<int> ExitStatus(double timeout_s);

 private:
  RunningProgram(std::string name, pid_t process, FileDescriptor output)
      : name_(std::move(name)), process_(process), output_(std::move(output)) {}

  std::string name_;
  pid_t process_;
  FileDescriptor output_;
  std::optional<int> status_;
};

}  // namespace antiphon
