#include "base/child_process.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "base/cancel.h"
#include "base/error.h"
#include "base/spawn.h"

namespace antiphon {
namespace {

constexpr std::chrono::milliseconds kBetweenAsks{10};

[[noreturn]] void ThrowStopped(const std::string& name) { Throw<Cancelled>("stopped on request while '{}' ran", name); }

void SleepOrEnd(pid_t child, bool with_group, const std::string& name) {
  if (!CancelRequested()) {
    std::this_thread::sleep_for(kBetweenAsks);
    return;
  }
  ::kill(with_group ? -child : child, SIGKILL);
  while (!StatusIfEnded(child, name, 0)) {
  }
  ThrowStopped(name);
}

}  // namespace

std::optional<int> RunProgram(const std::vector<std::string>& words, const std::filesystem::path& messages,
                              OnCancel on_cancel, int output) {
  FileDescriptor file;
  if (!messages.empty()) file = OpenForProgram(messages, O_WRONLY | O_CREAT | O_TRUNC);
  const bool end = on_cancel != OnCancel::kWait, with_group = on_cancel == OnCancel::kEnd;
  const std::optional<pid_t> child = Spawn(words, {.output = output, .messages = file.get(), .own_group = with_group});
  if (!child) return std::nullopt;
  std::optional<int> status;
  while (!(status = StatusIfEnded(*child, words[0], end ? WNOHANG : 0))) {
    if (end) SleepOrEnd(*child, with_group, words[0]);
  }
  // In our group, it heard of it, too, and may have been faster.
  if (on_cancel == OnCancel::kEndAlone && CancelRequested()) ThrowStopped(words[0]);
  if (WIFSIGNALED(*status)) Throw<Cancelled>("the program '{}' was stopped by signal {}", words[0], WTERMSIG(*status));
  return WEXITSTATUS(*status);
}

}  // namespace antiphon
