#include "base/running_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "base/error.h"

extern char** environ;  // POSIX, in no header

namespace antiphon {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{5};
constexpr double kTimeToEndS = 1.0;

// Where the program's standard streams lead, and that it is a process group of its own.
class SpawnSettings {
 public:
  SpawnSettings(int output, const std::string& messages) {
    CHECK_EQ(::posix_spawn_file_actions_init(&actions_), 0);
    CHECK_EQ(::posix_spawnattr_init(&attributes_), 0);
    CHECK_EQ(::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0), 0);
    CHECK_EQ(::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO), 0);
    CHECK_EQ(::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, messages.c_str(),
                                                O_WRONLY | O_CREAT | O_TRUNC, 0600),
             0);
    CHECK_EQ(::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP), 0);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

}  // namespace

std::unique_ptr<RunningProgram> RunningProgram::Start(const std::vector<std::string>& words,
                                                      const std::filesystem::path& messages) {
  std::vector<std::string> arguments = words;
  std::vector<char*> argv;
  for (std::string& word : arguments) argv.push_back(word.data());
  argv.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) Throw<IoError>("cannot make a pipe to '{}': {}", words[0], std::strerror(errno));
  pid_t process = 0;
  const SpawnSettings settings(ends[1], messages.string());
  const int error = ::posix_spawnp(&process, argv[0], settings.actions(), settings.attributes(), argv.data(), environ);
  ::close(ends[1]);
  if (error == 0) return std::unique_ptr<RunningProgram>(new RunningProgram(words[0], process, ends[0]));
  ::close(ends[0]);
  if (error == ENOENT) return nullptr;
  Throw<IoError>("cannot start '{}': {}", words[0], std::strerror(error));
}

RunningProgram::~RunningProgram() {
  ::close(output_);
  if (status_) return;
  ::kill(process_, SIGTERM);
  if (ExitStatus(kTimeToEndS)) return;
  ::kill(process_, SIGKILL);
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<size_t> RunningProgram::Read(std::span<std::byte> bytes, double timeout_s) {
  pollfd waiting{.fd = output_, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&waiting, 1, static_cast<int>(timeout_s * 1000));
  if (ready == 0 || (ready < 0 && errno == EINTR)) return std::nullopt;
  if (ready < 0) Throw<IoError>("cannot wait for '{}': {}", name_, std::strerror(errno));
  const ssize_t count = ::read(output_, bytes.data(), bytes.size());
  if (count < 0) Throw<IoError>("cannot read what '{}' writes: {}", name_, std::strerror(errno));
  return static_cast<size_t>(count);
}

std::optional<int> RunningProgram::ExitStatus(double timeout_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(timeout_s);
  while (!status_) {
    int status = 0;
    const pid_t ended = ::waitpid(process_, &status, WNOHANG);
    if (ended < 0 && errno != EINTR) Throw<IoError>("lost the program '{}': {}", name_, std::strerror(errno));
    if (ended == process_) {
      status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    } else if (std::chrono::steady_clock::now() >= end) {
      break;
    } else {
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }
  return status_;
}

}  // namespace antiphon
