// What a person told an experiment over its recipe (--set, --seed), kept in its folder.
//
// A later run that no longer says so would make other models in the place of those that are there. It is refused, and
// has to say which it means. File: settings.json in the folder of the steps' records. Threads: one caller.
#pragma once

#include <filesystem>

#include "recipe/recipe.h"

namespace antiphon::recipe {

/// Stands in `told` for the seed of the whole run.
inline constexpr char kSeedSetting[] = "--seed";

/// UsageError naming what an earlier run was told, this one is not, and the recipe has otherwise. `told` is what this
/// run says; settings of names that the recipe does not have any more do not count.
void RequireSettingsSaid(const Recipe& recipe, const std::filesystem::path& state_dir);

void RememberSettings(const Recipe& recipe, const std::filesystem::path& state_dir);

}  // namespace antiphon::recipe
