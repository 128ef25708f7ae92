// Where tests find what they compare with: a Python that has the reference packages, and the folder of shared data.
//
// Both are optional: a test that lacks its oracle calls GTEST_SKIP with the reason, so that it is shown as skipped.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace antiphon {

/// Python from ANTIPHON_PYTHON or the source tree's .venv, or else the system's, which has what scripts/setup installs;
/// nullopt if both are missing or lack `package`.
inline std::optional<std::string> OraclePython(const std::string& package) {
  const char* from_env = std::getenv("ANTIPHON_PYTHON");
  const std::string first = from_env != nullptr ? from_env : std::string(ANTIPHON_SOURCE_DIR) + "/.venv/bin/python";
  for (const std::string& python : {first, std::string("/usr/bin/python3")}) {
    if (!std::filesystem::exists(python)) continue;
    if (std::system(("'" + python + "' -c 'import " + package + "' >/dev/null 2>&1").c_str()) == 0) return python;
  }
  return std::nullopt;
}

/// Shared data and reference values from ANTIPHON_SHARED or beside the source tree; nullopt if `below` is not there.
inline std::optional<std::filesystem::path> SharedDir(const std::string& below = "") {
  const char* from_env = std::getenv("ANTIPHON_SHARED");
  const std::filesystem::path shared =
      from_env != nullptr ? std::filesystem::path(from_env) : std::filesystem::path(ANTIPHON_SOURCE_DIR) / "../shared";
  if (!std::filesystem::exists(shared / below)) return std::nullopt;
  return shared / below;
}

/// Standard output of `python -c script arguments…`; nullopt if it fails.
inline std::optional<std::string> RunPython(const std::string& python, const std::string& script,
                                            const std::string& arguments = "") {
  const auto path = std::filesystem::temp_directory_path() / ("antiphon_oracle_" + std::to_string(::getpid()) + ".py");
  std::ofstream(path) << script;
  FILE* pipe = ::popen(("'" + python + "' '" + path.string() + "' " + arguments).c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string output;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  const int status = ::pclose(pipe);
  std::filesystem::remove(path);
  return status == 0 ? std::optional(output) : std::nullopt;
}

}  // namespace antiphon
