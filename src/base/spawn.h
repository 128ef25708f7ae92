// The start of another program, without a shell: the one place that calls posix_spawn.
//
//   const auto process = Spawn({"ffmpeg", "-i", file}, {.input = none.get(), .messages = messages.get()});
//
// Threads: safe together. Errors: IoError naming the program.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/file_descriptor.h"

namespace antiphon {

/// Descriptors that the program gets as its standard streams; −1: it shares ours.
struct SpawnOptions {
  int input = -1;
  int output = -1;
  int messages = -1;
  bool own_group = false;     // signals of the terminal do not reach it; it ends together with what it starts
  bool close_others = false;  // of our open files it sees those three only
};

/// Starts a program (a path, or a name to look for in PATH) with its arguments; none if there is no such program.
std::optional<pid_t> Spawn(const std::vector<std::string>& words, const SpawnOptions& options);

/// How a started process ended, as waitpid says (WIFEXITED and its kin); none if it has not. `options`: WNOHANG, or 0
/// to wait, until a signal comes. Throws IoError if it is no child of ours.
std::optional<int> StatusIfEnded(pid_t process, const std::string& program, int options);

struct Pipe {
  FileDescriptor read, write;
};

/// A pipe that programs started later do not see; `program` is whom it is for, for the error.
Pipe NewPipe(const std::string& program);

/// A file that a program reads, or writes from its beginning; programs started later do not see it.
FileDescriptor OpenForProgram(const std::string& file, int flags);

}  // namespace antiphon
