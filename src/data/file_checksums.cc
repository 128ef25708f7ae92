#include "data/file_checksums.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/script.h"

namespace antiphon::data {
namespace {

namespace fs = std::filesystem;

std::string ChecksumOf(const fs::path& file) { return fmt::format("{:016x}", Checksum(MappedFile(file).bytes())); }

void RequireAsWritten(const fs::path& file) {
  const fs::path sums_file = ChecksumFileOf(file);
  std::error_code unknown;
  if (!fs::exists(sums_file, unknown)) return;
  // A text that cannot be parsed says nothing about any file.
  const nlohmann::json sums = nlohmann::json::parse(ReadFile(sums_file), nullptr, false);
  const std::string name = file.filename().string();
  if (sums.is_object() && !sums.contains(name)) return;
  if (IsAsWritten(file.parent_path(), name, sums)) return;
  Throw<InputError>(
      "'{}' is not what '{}' says was written: it was cut short or changed. Make it anew; if it was changed on "
      "purpose, "
      "remove '{}'",
      file.string(), sums_file.string(), sums_file.string());
}

}  // namespace

nlohmann::json ChecksumsOf(const fs::path& folder, std::span<const std::string> names) {
  nlohmann::json sums = nlohmann::json::object();
  for (const std::string& name : names) sums[name] = ChecksumOf(folder / name);
  return sums;
}

bool IsAsWritten(const fs::path& folder, const std::string& name, const nlohmann::json& sums) {
  return sums.is_object() && sums.value(name, nlohmann::json()) == ChecksumOf(folder / name);
}

fs::path ChecksumFileOf(const fs::path& table_file) {
  return table_file.parent_path() / (table_file.stem().string() + ".checksums.json");
}

void WriteTableChecksums(const fs::path& ark, bool with_script) {
  std::vector<std::string> names = {ark.filename().string()};
  if (with_script) names.push_back(fs::path(ark).replace_extension(".scp").filename().string());
  WriteFileAtomically(ChecksumFileOf(ark), ChecksumsOf(ark.parent_path(), names).dump() + "\n");
}

void RequireTableAsWritten(std::string_view table) {
  const TableName name = ParseTableName(table);
  RequireAsWritten(name.path);
  if (!name.script) return;
  std::set<fs::path> archives;
  for (const ScriptEntry& entry : ReadScript(name.path)) archives.insert(entry.object.path);
  for (const fs::path& archive : archives) RequireAsWritten(archive);
}

}  // namespace antiphon::data
