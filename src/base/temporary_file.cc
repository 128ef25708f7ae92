#include "base/temporary_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/host_name.h"

namespace antiphon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".tmp";
constexpr int kNumberBase = 16;

// What stands between a file's name and the process id: of this machine alone.
std::string HostMark() {
  std::string name = HostName();
  std::replace(name.begin(), name.end(), '/', '_');
  return ".antiphon-" + name + "-";
}

// 0 if `name` is no temporary file of this machine.
pid_t WriterOf(std::string_view name, const std::string& mark) {
  const size_t at = name.rfind(mark);
  if (at == std::string_view::npos || !name.ends_with(kEnding)) return 0;
  name.remove_prefix(at + mark.size());
  name.remove_suffix(std::min(kEnding.size(), name.size()));
  const char* const last = name.data() + name.size();
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), last, pid);
  if (error != std::errc() || end == last) return 0;
  uint32_t number = 0;
  const auto [end_of_number, wrong] = std::from_chars(end + 1, last, number, kNumberBase);
  return *end == '-' && wrong == std::errc() && end_of_number == last ? pid : 0;
}

// True of a zombie too: a process that was killed and whose parent has not waited for it yet.
bool HasEnded(pid_t pid) {
  if (::kill(pid, 0) != 0) return errno == ESRCH;
  std::ifstream stream("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(stream, line);
  const size_t state = line.rfind(") ");  // behind the program's name, which may have brackets itself
  return state != std::string::npos && line.compare(state + 2, 1, "Z") == 0;
}

int LockWhole(const FileDescriptor& file, int how) {
  int result = 0;
  while ((result = ::flock(file.get(), how)) != 0 && errno == EINTR) {
  }
  return result;
}

// Whoever writes it elsewhere, under this machine's name, has locked it. Opened for writing, too, as network file
// systems want it for an exclusive lock; a file that this user may not write to stays.
void RemoveUnlocked(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() >= 0 && LockWhole(file, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
}

}  // namespace

fs::path NewTemporaryPath(const fs::path& path) {
  static std::atomic<uint32_t> count = 0;
  uint32_t number = 0;
  if (::getrandom(&number, sizeof number, GRND_NONBLOCK) < 0) number = 0;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  return folder /
         fmt::format("{}{}{}-{:x}{}", path.filename().string(), HostMark(), ::getpid(), number + count++, kEnding);
}

// Shared, so that a second descriptor can take the lock over from the first. Where locks do not work, that of
// RemoveUnlocked fails, too, and the file stays.
bool LockTemporary(const FileDescriptor& file) {
  struct stat state {};
  return LockWhole(file, LOCK_SH) != 0 || ::fstat(file.get(), &state) != 0 || state.st_nlink > 0;
}

void RemoveStaleTemporaries(const fs::path& folder) {
  const std::string mark = HostMark();
  std::error_code ignored;
  for (auto entry = fs::directory_iterator(folder, ignored); entry != fs::directory_iterator();
       entry.increment(ignored)) {
    const pid_t writer = WriterOf(entry->path().filename().string(), mark);
    if (writer > 0 && HasEnded(writer)) RemoveUnlocked(entry->path());
  }
}

}  // namespace antiphon
