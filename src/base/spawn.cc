#include "base/spawn.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "base/io_error.h"

extern char** environ;  // POSIX, in no header

namespace antiphon {
namespace {

constexpr mode_t kOwnerOnly = 0600;

class SpawnSettings {
 public:
  explicit SpawnSettings(const SpawnOptions& options) {
    CHECK_EQ(::posix_spawn_file_actions_init(&actions_), 0);
    CHECK_EQ(::posix_spawnattr_init(&attributes_), 0);
    const std::array<int, 3> streams{options.input, options.output, options.messages};
    for (int stream = 0; stream < 3; ++stream) {
      if (const int from = streams[static_cast<size_t>(stream)]; from >= 0)
        CHECK_EQ(::posix_spawn_file_actions_adddup2(&actions_, from, stream), 0);
    }
    if (options.close_others) CHECK_EQ(::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1), 0);
    if (options.own_group) CHECK_EQ(::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP), 0);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
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

std::optional<pid_t> Spawn(const std::vector<std::string>& words, const SpawnOptions& options) {
  std::vector<std::string> arguments = words;
  std::vector<char*> argv;
  for (std::string& word : arguments) argv.push_back(word.data());
  argv.push_back(nullptr);
  const SpawnSettings settings(options);
  pid_t process = 0;
  const int error = ::posix_spawnp(&process, argv[0], settings.actions(), settings.attributes(), argv.data(), environ);
  if (error == 0) return process;
  if (error == ENOENT) return std::nullopt;
  ThrowIo("start", words[0], error);
}

std::optional<int> StatusIfEnded(pid_t process, const std::string& program, int options) {
  int status = 0;
  const pid_t ended = ::waitpid(process, &status, options);
  if (ended < 0 && errno != EINTR) Throw<IoError>("lost the program '{}': {}", program, std::strerror(errno));
  return ended == process ? std::optional(status) : std::nullopt;
}

Pipe NewPipe(const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) ThrowIo("make a pipe to", program, errno);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

FileDescriptor OpenForProgram(const std::string& file, int flags) {
  FileDescriptor opened(::open(file.c_str(), flags | O_CLOEXEC, kOwnerOnly));
  if (opened.get() < 0) ThrowIo("open", file, errno);
  return opened;
}

}  // namespace antiphon
