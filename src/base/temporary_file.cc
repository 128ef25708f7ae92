#include "base/temporary_file.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/host_name.h"

namespace antiphon {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".tmp";

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
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  return error == std::errc() && end == name.data() + name.size() ? pid : 0;
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

}  // namespace

fs::path TemporaryPath(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  return folder / (path.filename().string() + HostMark() + std::to_string(::getpid()) + std::string(kEnding));
}

void RemoveStaleTemporaries(const fs::path& folder) {
  const std::string mark = HostMark();
  std::error_code ignored;
  for (auto entry = fs::directory_iterator(folder, ignored); entry != fs::directory_iterator();
       entry.increment(ignored)) {
    const pid_t writer = WriterOf(entry->path().filename().string(), mark);
    if (writer > 0 && HasEnded(writer)) fs::remove(entry->path(), ignored);
  }
}

}  // namespace antiphon
