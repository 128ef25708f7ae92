#include "base/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/cancel.h"
#include "base/error.h"
#include "base/spawn.h"

namespace antiphon {
namespace {

constexpr std::chrono::milliseconds kBetweenAsks{10};

// Whether the child has ended; its status, if so. 0 in `options` waits for it.
bool HasEnded(pid_t child, const std::string& name, int options, int& status) {
  const pid_t ended = ::waitpid(child, &status, options);
  if (ended < 0 && errno != EINTR) Throw<IoError>("lost the program '{}': {}", name, std::strerror(errno));
  return ended == child;
}

void EndIfCancelled(pid_t child, const std::string& name, int& status) {
  while (!HasEnded(child, name, WNOHANG, status)) {
    if (!CancelRequested()) {
      std::this_thread::sleep_for(kBetweenAsks);
      continue;
    }
    ::kill(-child, SIGKILL);
    while (!HasEnded(child, name, 0, status)) {
    }
    Throw<Cancelled>("stopped on request while '{}' ran", name);
  }
}

}  // namespace

std::optional<int> RunProgram(const std::vector<std::string>& words, const std::filesystem::path& messages,
                              OnCancel on_cancel) {
  FileDescriptor file;
  if (!messages.empty()) file = OpenForProgram(messages, O_WRONLY | O_CREAT | O_TRUNC);
  const bool end = on_cancel == OnCancel::kEnd;
  const std::optional<pid_t> child = Spawn(words, {.messages = file.get(), .own_group = end});
  if (!child) return std::nullopt;
  int status = 0;
  if (end) EndIfCancelled(*child, words[0], status);
  while (!end && !HasEnded(*child, words[0], 0, status)) {
  }
  if (WIFSIGNALED(status)) Throw<Cancelled>("the program '{}' was stopped by signal {}", words[0], WTERMSIG(status));
  return WEXITSTATUS(status);
}

}  // namespace antiphon
