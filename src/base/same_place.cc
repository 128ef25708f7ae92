#include "base/same_place.h"

#include <system_error>

#include "base/error.h"

namespace antiphon {
namespace {

namespace fs = std::filesystem;

// Without a trailing slash, which would make another path of the same folder.
fs::path Plain(const fs::path& path) {
  std::error_code unreadable;
  const fs::path whole = fs::absolute(path).lexically_normal();
  const fs::path canonical = fs::weakly_canonical(whole, unreadable);
  const fs::path& plain = unreadable ? whole : canonical;
  return plain.has_filename() ? plain : plain.parent_path();
}

}  // namespace

bool IsSamePlace(const fs::path& a, const fs::path& b) {
  if (a.empty() || b.empty()) return false;
  std::error_code missing;
  return fs::equivalent(a, b, missing) || Plain(a) == Plain(b);
}

void RequireOtherPlace(const fs::path& read, const fs::path& written, std::string_view what) {
  if (!IsSamePlace(read, written)) return;
  Throw<UsageError>("'{}' is read, and {} would be overwritten: give another place for what is written", read.string(),
                    what);
}

void RequireOutside(const fs::path& read, const fs::path& folder) {
  if (read.empty()) return;
  for (fs::path at = Plain(read);; at = at.parent_path()) {
    if (IsSamePlace(at, folder)) {
      Throw<UsageError>(
          "'{}' is read, and what '{}' holds would be overwritten: give another place for what is written",
          read.string(), folder.string());
    }
    if (at == at.parent_path()) return;
  }
}

}  // namespace antiphon
