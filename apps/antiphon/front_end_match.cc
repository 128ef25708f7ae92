#include "front_end_match.h"

#include <filesystem>

#include "base/error.h"
#include "base/options.h"
#include "feat/front_end.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

Config Description(const Config& config) {
  auto options = ReadOptions<feat::FrontEndOptions>(config);
  options.dither = 0;
  options.dither_seed = 0;
  return OptionsToConfig(options);
}

}  // namespace

void RequireFrontEnd(const std::string& features, const std::string& expected, const std::string& model) {
  const fs::path path = fs::path(features).parent_path() / "front_end.toml";
  if (expected.empty() || !fs::exists(path)) return;
  const Config found = Description(Config::Load(path));
  const Config wanted = Description(Config::Parse(expected, model));
  for (const std::string& key : wanted.Keys()) {
    if (found.AnyAsText(key) == wanted.AnyAsText(key)) continue;
    Throw<InputError>(
        "the features '{}' were computed with {} = {}, but '{}' was trained with {}; compute them like its training "
        "features (antiphon features --like)",
        features, key, *found.AnyAsText(key), model, *wanted.AnyAsText(key));
  }
}

}  // namespace antiphon::app
