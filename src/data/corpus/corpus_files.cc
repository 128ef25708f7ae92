#include "data/corpus/corpus_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/gzip.h"
#include "base/utf8.h"

namespace antiphon::data {

namespace fs = std::filesystem;

fs::path FindManifest(const fs::path& place, const std::vector<std::string>& pieces, const std::string& expected) {
  std::error_code none;
  if (fs::is_regular_file(place, none)) return place;
  if (!fs::is_directory(place, none)) Throw<InputError>("'{}' does not exist: expected {}", place.string(), expected);
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(place)) {
    const std::string name = entry.path().filename().string();
    const auto holds = [&](const std::string& piece) { return name.find(piece) != std::string::npos; };
    if (entry.is_regular_file(none) && std::ranges::all_of(pieces, holds)) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  if (found.empty()) Throw<InputError>("'{}' holds no {}", place.string(), expected);
  if (found.size() > 1) {
    Throw<InputError>("'{}' holds '{}' and '{}'; name one of them, or --part", place.string(),
                      found[0].filename().string(), found[1].filename().string());
  }
  return found[0];
}

fs::path FolderOf(const fs::path& place) {
  std::error_code none;
  if (fs::is_directory(place, none)) return place;
  return place.has_parent_path() ? place.parent_path() : fs::path(".");
}

fs::path Below(const fs::path& place, const std::string& name) {
  std::error_code none;
  return !name.empty() && fs::is_directory(place / name, none) ? place / name : place;
}

fs::path AudioFolderOf(const std::vector<TranscriptRow>& rows, const fs::path& place) {
  fs::path common;
  for (const TranscriptRow& row : rows) {
    const fs::path folder = fs::path(row.file).lexically_normal().parent_path();
    if (!folder.is_absolute()) return place;
    if (common.empty()) common = folder;
    while (folder.lexically_relative(common).empty() || *folder.lexically_relative(common).begin() == "..") {
      common = common.parent_path();
    }
  }
  return common.has_relative_path() ? common : place;
}

void EachLine(const fs::path& file, const std::function<void(std::string_view line, const std::string& where)>& visit) {
  const std::string text = ReadMaybeGzipped(file);
  std::string_view rest = WithoutByteOrderMark(text);
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) visit(line, fmt::format("{}:{}", file.string(), number));
  }
}

void EachJsonLine(const fs::path& file, std::vector<DataProblem>& problems,
                  const std::function<void(const nlohmann::json& object, const std::string& where)>& visit) {
  size_t used = 0;
  EachLine(file, [&](std::string_view line, const std::string& where) {
    const auto leave_out = [&](const std::string& why) {
      problems.push_back({where, why + "; the line is left out", false});
    };
    try {
      const nlohmann::json object = nlohmann::json::parse(line);
      if (!object.is_object()) return leave_out("no JSON object");
      visit(object, where);
      ++used;
    } catch (const InputError& e) {
      leave_out(e.message());
    } catch (const nlohmann::json::exception& e) {
      leave_out(fmt::format("not as expected: {}", e.what()));
    }
  });
  if (used == 0) {
    Throw<InputError>("'{}': not one line could be used{}", file.string(),
                      problems.empty() ? "" : fmt::format("; the last: {}", problems.back().what));
  }
}

std::string TextAt(const nlohmann::json& object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const auto it = object.find(key);
    if (it == object.end() || it->is_null()) continue;
    return it->is_string() ? it->get<std::string>() : it->dump();
  }
  return "";
}

}  // namespace antiphon::data
