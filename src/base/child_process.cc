#include "base/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/error.h"

extern char** environ;  // POSIX, in no header

namespace antiphon {
namespace {

class FileActions {
 public:
  FileActions() { CHECK_EQ(::posix_spawn_file_actions_init(&actions_), 0); }
  FileActions(const FileActions&) = delete;
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }
  void WriteErrorsTo(const std::string& file) {
    CHECK_EQ(
        ::posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600),
        0);
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

}  // namespace

std::optional<int> RunProgram(const std::vector<std::string>& words, const std::filesystem::path& messages) {
  std::vector<std::string> arguments = words;
  std::vector<char*> argv;
  for (std::string& word : arguments) argv.push_back(word.data());
  argv.push_back(nullptr);
  FileActions actions;
  if (!messages.empty()) actions.WriteErrorsTo(messages.string());
  pid_t child = 0;
  if (const int error = ::posix_spawnp(&child, argv[0], actions.get(), nullptr, argv.data(), environ); error != 0) {
    if (error == ENOENT) return std::nullopt;
    Throw<IoError>("cannot start '{}': {}", words[0], std::strerror(error));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) Throw<IoError>("lost the program '{}': {}", words[0], std::strerror(errno));
  }
  if (WIFSIGNALED(status)) Throw<Cancelled>("the program '{}' was stopped by signal {}", words[0], WTERMSIG(status));
  return WEXITSTATUS(status);
}

}  // namespace antiphon
