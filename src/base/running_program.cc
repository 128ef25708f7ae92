#include "base/running_program.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/spawn.h"

namespace antiphon {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{5};
constexpr double kTimeToEndS = 1.0;

}  // namespace

std::unique_ptr<RunningProgram> RunningProgram::Start(const std::vector<std::string>& words,
                                                      const std::filesystem::path& messages,
                                                      const RunningProgramOptions& options) {
  const FileDescriptor nothing = OpenForProgram("/dev/null", O_RDONLY);
  const FileDescriptor file = OpenForProgram(messages, O_WRONLY | O_CREAT | O_TRUNC);
  Pipe pipe = NewPipe(words[0]);
  const std::optional<pid_t> process = Spawn(words, {.input = options.shares_input ? -1 : nothing.get(),
                                                     .output = pipe.write.get(),
                                                     .messages = file.get(),
                                                     .own_group = options.own_group});
  if (!process) return nullptr;
  return std::unique_ptr<RunningProgram>(new RunningProgram(words[0], *process, std::move(pipe.read)));
}

RunningProgram::~RunningProgram() {
  output_.Close();
  if (status_) return;
  ::kill(process_, SIGTERM);
  if (ExitStatus(kTimeToEndS)) return;
  ::kill(process_, SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<size_t> RunningProgram::Read(std::span<std::byte> bytes, double timeout_s) {
  return ReadSome(output_.get(), bytes, timeout_s, fmt::format("what '{}' writes", name_));
}

std::optional<int> RunningProgram::ExitStatus(double timeout_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  while (!status_) {
    if (const auto status = StatusIfEnded(process_, name_, WNOHANG)) {
      status_ = WIFSIGNALED(*status) ? 128 + WTERMSIG(*status) : WEXITSTATUS(*status);
    } else if (std::chrono::steady_clock::now() >= end) {
      break;
    } else {
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
  return status_;
}

}  // namespace antiphon
