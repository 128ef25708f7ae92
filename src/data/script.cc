#include "data/script.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/trim.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

bool ParseWhole(std::string_view text, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return !text.empty() && error == std::errc() && end == text.data() + text.size();
}

// "", ":" (all) or "3:17".
std::optional<IndexRange> ParseRange(std::string_view text, std::string_view whole) {
  if (text.empty() || text == ":") return std::nullopt;
  const size_t colon = text.find(':');
  uint64_t first = 0;
  uint64_t last = 0;
  if (colon == std::string_view::npos || !ParseWhole(text.substr(0, colon), first) ||
      !ParseWhole(text.substr(colon + 1), last) || last < first || last > (uint64_t{1} << 40)) {
    Throw<InputError>("'{}': '{}' is no range; expected FIRST:LAST, both from 0 and inclusive", whole, text);
  }
  return IndexRange{static_cast<int64_t>(first), static_cast<int64_t>(last)};
}

// Whether `read`, as LocateBeside found it, is what a script in `folder` means by `named`: the path itself, from either
// folder, or one that ends in the script's own folder, whatever the working directory.
bool MeansBeside(const fs::path& named, const fs::path& read, const fs::path& folder) {
  if (read == named || read == folder / named) return true;
  if (named.is_absolute()) return false;
  const fs::path from = named.lexically_normal().parent_path(), own = fs::absolute(folder / ".").lexically_normal();
  // `own` ends in an empty part.
  const auto parts = std::distance(from.begin(), from.end()), all = std::distance(own.begin(), own.end()) - 1;
  return parts <= all && std::equal(from.begin(), from.end(), std::next(own.begin(), all - parts));
}

}  // namespace

TableName ParseTableName(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon != std::string_view::npos) {
    std::string_view kind = name.substr(0, colon);
    std::string_view first = kind.substr(0, kind.find(','));
    if (first == "ark" || first == "scp") {
      // s, cs and the like promise an order, which these readers do not need.
      static constexpr std::string_view kPromises[] = {"s", "ns", "cs", "ncs", "o", "no", "b", "t", "bg"};
      for (kind.remove_prefix(first.size()); !kind.empty();) {
        kind.remove_prefix(1);
        const std::string_view option = kind.substr(0, kind.find(','));
        if (std::find(std::begin(kPromises), std::end(kPromises), option) == std::end(kPromises)) {
          Throw<UsageError>("table '{}': option '{}' is not supported here", name, option);
        }
        kind.remove_prefix(option.size());
      }
      const std::string_view path = Trim(name.substr(colon + 1));
      if (path.empty() || path == "-" || path.ends_with('|')) {
        Throw<UsageError>("table '{}': expected a file; pipes and commands are not read here", name);
      }
      return {first == "scp", fs::path(path)};
    }
  }
  if (name.empty()) Throw<UsageError>("expected the name of a table, found nothing");
  return {name.ends_with(".scp"), fs::path(name)};
}

ObjectReference ParseObjectReference(std::string_view text) {
  const std::string_view whole = text = Trim(text);
  if (text.empty()) Throw<InputError>("expected PATH or PATH:OFFSET, found nothing");
  if (text.ends_with('|') || text.starts_with('|')) {
    Throw<InputError>("'{}' is a command; only files are read here", whole);
  }
  ObjectReference object;
  if (text.ends_with(']')) {
    const size_t open = text.rfind('[');
    if (open == std::string_view::npos) Throw<InputError>("'{}': ']' without '['", whole);
    const std::string_view range = text.substr(open + 1, text.size() - open - 2);
    const size_t comma = range.find(',');
    object.rows = ParseRange(range.substr(0, comma), whole);
    if (comma != std::string_view::npos) object.cols = ParseRange(range.substr(comma + 1), whole);
    text = text.substr(0, open);
  }
  const size_t colon = text.rfind(':');
  uint64_t offset = 0;
  if (colon != std::string_view::npos && ParseWhole(text.substr(colon + 1), offset)) {
    object.offset = offset;
    text = text.substr(0, colon);
  }
  if (text.empty()) Throw<InputError>("'{}': the path is missing", whole);
  object.path = fs::path(text);
  return object;
}

std::vector<ScriptEntry> ReadScript(const fs::path& path) {
  const std::string bytes = ReadFile(path);
  std::vector<ScriptEntry> entries;
  std::unordered_set<std::string> seen;
  std::map<fs::path, fs::path> elsewhere;
  std::string_view rest = bytes;
  for (int line = 1; !rest.empty(); ++line) {
    const std::string_view text = Trim(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(std::min(rest.size(), std::min(rest.find('\n'), rest.size()) + 1));
    if (text.empty()) continue;
    WithContext(
        [&] {
          const size_t blank = text.find_first_of(" \t");
          if (blank == std::string_view::npos)
            Throw<InputError>("expected KEY PATH, found only '{}'", text.substr(0, 64));
          ScriptEntry entry{std::string(text.substr(0, blank)), ParseObjectReference(text.substr(blank))};
          if (!seen.insert(entry.key).second) Throw<InputError>("key '{}' is there twice", entry.key);
          const fs::path named = std::exchange(entry.object.path, LocateBeside(entry.object.path, path.parent_path()));
          if (!MeansBeside(named, entry.object.path, path.parent_path())) elsewhere.emplace(named, entry.object.path);
          entries.push_back(std::move(entry));
        },
        [&] { return fmt::format("{}:{}", path.string(), line); });
  }
  for (const auto& [named, read] : elsewhere) {
    log::Warn("'{}' names '{}', which is not there: '{}' is read instead, which is right only if the folder was moved",
              path.string(), named.string(), read.string());
  }
  return entries;
}

fs::path LocateBeside(const fs::path& path, const fs::path& folder) {
  std::error_code ignored;
  if (path.is_absolute() && fs::exists(path, ignored)) return path;
  if (path.is_relative()) {
    if (fs::exists(path, ignored)) return path;
    if (fs::exists(folder / path, ignored)) return folder / path;
  }
  if (fs::exists(folder / path.filename(), ignored)) return folder / path.filename();
  return path;
}

std::vector<int64_t> StoredBytes(const std::vector<ScriptEntry>& entries) {
  std::map<std::filesystem::path, std::map<uint64_t, size_t>> by_place;
  std::vector<int64_t> bytes(entries.size(), 1);
  for (size_t i = 0; i < entries.size(); ++i) {
    const ObjectReference& object = entries[i].object;
    if (object.offset) by_place[object.path][*object.offset] = i;
  }
  for (const auto& [path, objects] : by_place) {
    std::error_code missing;
    const uintmax_t end = std::filesystem::file_size(path, missing);
    for (auto it = objects.begin(); it != objects.end(); ++it) {
      const auto next = std::next(it);
      const uint64_t limit = next != objects.end() ? next->first : missing ? it->first : end;
      if (limit > it->first) bytes[it->second] = static_cast<int64_t>(limit - it->first);
    }
  }
  return bytes;
}

}  // namespace antiphon::data
