#include "data/text_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "base/trim.h"
#include "base/utf8.h"

namespace antiphon::data {
namespace {

// Looks at the order and the uniqueness of keys.
class KeyChecker {
 public:
  /// False if the key was there before.
  bool Check(const std::string& where, const TextLine& line, std::vector<DataProblem>& problems) {
    const auto [it, is_new] = lines_.emplace(line.key, line.line);
    if (!is_new) {
      problems.push_back(
          {where, fmt::format("'{}' is there twice (first in line {}); keep one of them", line.key, it->second), true});
    } else if (!unsorted_ && line.key < last_) {
      unsorted_ = true;
      problems.push_back(
          {where, fmt::format("'{}' after '{}': not sorted; sort with LC_ALL=C sort", line.key, last_), false});
    }
    last_ = line.key;
    return is_new;
  }

 private:
  std::unordered_map<std::string, int> lines_;
  std::string last_;
  bool unsorted_ = false;
};

}  // namespace

std::vector<TextLine> ReadTextTable(const std::filesystem::path& path, std::vector<DataProblem>& problems) {
  const std::string bytes = ReadFile(path);
  std::vector<TextLine> lines;
  KeyChecker checker;
  std::string_view rest = WithoutByteOrderMark(bytes);
  if (rest.size() < bytes.size()) {
    problems.push_back(
        {path.string(),
         "the file begins with a byte order mark, which other tools will take for a part of the first id", false});
  }
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view raw = rest.substr(0, end);
    const std::string where = fmt::format("{}:{}", path.string(), number);
    if (end == rest.size())
      problems.push_back({where, "the last line has no line end: the file may have been cut short", false});
    rest.remove_prefix(std::min(rest.size(), end + 1));
    if (const size_t bad = FindBadUtf8(raw); bad != std::string_view::npos) {
      problems.push_back(
          {where, fmt::format("byte {} of the line is no UTF-8; convert the file (iconv -f latin1 -t utf8)", bad + 1),
           true});
      continue;
    }
    if (raw.find('\0') != std::string_view::npos) {
      problems.push_back({where, "the line holds a zero byte: this is no text file", true});
      continue;
    }
    const std::string_view text = Trim(raw);
    if (text.empty()) {
      problems.push_back({where, "the line is empty; expected an id and what belongs to it", true});
      continue;
    }
    const size_t blank = std::min(text.find_first_of(kBlanks), text.size());
    TextLine line{std::string(text.substr(0, blank)), std::string(Trim(text.substr(blank))), number};
    if (checker.Check(where, line, problems)) lines.push_back(std::move(line));
  }
  if (bytes.empty()) problems.push_back({path.string(), "the file is empty", true});
  return lines;
}

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  for (;;) {
    const size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return words;
    const size_t end = std::min(text.find_first_of(kBlanks, first), text.size());
    words.emplace_back(text.substr(first, end - first));
    text.remove_prefix(end);
  }
}

bool ParseReal(std::string_view field, double& value) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  return error == std::errc() && end == field.data() + field.size() && std::isfinite(value);
}

}  // namespace antiphon::data
