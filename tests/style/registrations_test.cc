// Every REGISTER_… line of the sources took effect in a program that links the libraries as ours does.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>

#include "base/registry.h"

namespace antiphon {
namespace {

namespace fs = std::filesystem;

// Below the source tree: "src/nn/layers/affine.cc".
std::string Relative(const std::string& file) {
  return fs::path(file)
      .lexically_normal()
      .lexically_relative(fs::path(ANTIPHON_SOURCE_DIR).lexically_normal())
      .string();
}

// Kernels of the other kind of processor are not compiled here.
#if defined(__aarch64__)
constexpr const char* kElsewhere = "#if HWY_TARGETS & HWY_(SSE4|AVX).*";
#else
constexpr const char* kElsewhere = "#if HWY_TARGETS & HWY_NEON";
#endif

std::map<std::string, int> LinesOfSources() {
  const std::regex elsewhere(kElsewhere);
  const std::regex registration("^REGISTER_[A-Z_]+\\(.*");
  std::map<std::string, int> lines;
  for (const char* top : {"src", "apps"}) {
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(ANTIPHON_SOURCE_DIR) / top)) {
      if (entry.path().extension() != ".cc") continue;
      std::ifstream in(entry.path());
      bool here = true;
      for (std::string line; std::getline(in, line);) {
        if (line.starts_with("#")) here = !std::regex_match(line, elsewhere);
        if (here && std::regex_match(line, registration)) ++lines[Relative(entry.path().string())];
      }
    }
  }
  return lines;
}

TEST(Registrations, AllTookEffect) {
  std::map<std::string, int> effective;
  for (const Registration& registration : AllRegistrations()) {
    fs::path file = registration.file;
    if (file.is_relative()) file = fs::path(ANTIPHON_BINARY_DIR) / file;
    ++effective[Relative(file.string())];
  }
  const auto lines = LinesOfSources();
  EXPECT_FALSE(lines.empty());
  for (const auto& [file, count] : lines) {
    const auto it = effective.find(file);
    // A function body or a loop may register more than one entry per line, never fewer.
    EXPECT_GE(it == effective.end() ? 0 : it->second, count) << file << " has lines that did not register";
  }
}

}  // namespace
}  // namespace antiphon
