#include "base/open_files.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "base/io_error.h"

namespace antiphon {
namespace {

// Containers may allow a thousand million, and programs that close all that they inherit one by one would take minutes.
constexpr rlim_t kMostOpenFiles = 1 << 20;

rlimit OpenFileLimits() {
  rlimit limits{};
  if (::getrlimit(RLIMIT_NOFILE, &limits) != 0) ThrowIo("ask for", "the limit of open files", errno);
  return limits;
}

}  // namespace

void RaiseOpenFileLimit() {
  rlimit limits = OpenFileLimits();
  const rlim_t wanted = std::min(limits.rlim_max, kMostOpenFiles);
  if (limits.rlim_cur >= wanted) return;
  limits.rlim_cur = wanted;
  // Where it is refused, what needs more files says so.
  (void)::setrlimit(RLIMIT_NOFILE, &limits);
}

int64_t OpenFileLimit() {
  return static_cast<int64_t>(std::min<rlim_t>(OpenFileLimits().rlim_cur, std::numeric_limits<int64_t>::max()));
}

}  // namespace antiphon
