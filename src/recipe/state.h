// What a finished step of a recipe leaves behind, so that the next run knows whether it is still up to date.
//
// A record holds the step's command line and options, Antiphon's version, and one stamp per input file: the checksum of
// files up to a megabyte, size and modification time of larger ones; folders count with everything below them. It is
// written only after the step succeeded, atomically, to FOLDER/NAME.json.
// Errors: InputError for an input that does not exist, IoError for the disk. A record that cannot be read counts as
// none.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "recipe/recipe.h"

namespace antiphon::recipe {

struct StepRecord {
  std::string version;
  std::string command_line;
  std::string options;
  std::map<std::string, std::string> inputs;   // path → stamp
  std::map<std::string, std::string> outputs;  // path → size in bytes, or "folder"
  std::string result = "{}";                   // what the command returned, as JSON
  double seconds = 0.0;
};

/// The record that `step` (expanded) would leave now, without what only running it tells.
StepRecord DescribeStep(const RecipeStep& step);
/// Fills `outputs`; InputError if the step left one of them out.
void RecordOutputs(const RecipeStep& step, StepRecord& record);

void SaveRecord(const std::filesystem::path& folder, const std::string& step_name, const StepRecord& record);
std::optional<StepRecord> LoadRecord(const std::filesystem::path& folder, const std::string& step_name);

/// Why `step`, which would leave `now` (its outputs apart), must run: "not made yet", "the input 'x' changed", "the
/// output 'y' is missing"…; "" if it is up to date.
std::string ReasonToRun(const RecipeStep& step, const StepRecord& now, const std::optional<StepRecord>& before);

/// Whether a step that was begun earlier and not finished was the same in everything, so that its work may be taken up.
bool IsSameAttempt(const StepRecord& now, const std::optional<StepRecord>& begun);

/// What runs, as a person would type it; a command's options stand in `config`.
std::string CommandLine(const RecipeStep& step, const std::filesystem::path& config);

}  // namespace antiphon::recipe
