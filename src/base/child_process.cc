#include "base/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/spawn.h"

namespace antiphon {

std::optional<int> RunProgram(const std::vector<std::string>& words, const std::filesystem::path& messages) {
  FileDescriptor file;
  if (!messages.empty()) file = OpenForProgram(messages, O_WRONLY | O_CREAT | O_TRUNC);
  const std::optional<pid_t> child = Spawn(words, {.messages = file.get()});
  if (!child) return std::nullopt;
  int status = 0;
  while (::waitpid(*child, &status, 0) < 0) {
    if (errno != EINTR) Throw<IoError>("lost the program '{}': {}", words[0], std::strerror(errno));
  }
  if (WIFSIGNALED(status)) Throw<Cancelled>("the program '{}' was stopped by signal {}", words[0], WTERMSIG(status));
  return WEXITSTATUS(status);
}

}  // namespace antiphon
