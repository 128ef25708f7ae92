// Walks a recipe: skips what is up to date and says why, runs the rest, times each step, remembers what is finished.
//
// Killed at any moment, the next run goes on with the step that was not finished. One run per experiment folder at a
// time. Errors: what a step throws, with the step's name and place in front; a script's exit status as InputError.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "recipe/state.h"

namespace antiphon::recipe {

struct RunOptions {
  std::string from = {};  // first step; earlier ones are taken as they are
  std::string to = {};    // last step
  bool force = false;     // run also what is up to date
  bool dry_run = false;   // say only what would be done
};

struct StepOutcome {
  enum class State { kRan, kUpToDate, kLeftOut, kWouldRun };
  std::string name;
  State state = State::kLeftOut;
  std::string reason;
  double seconds = 0.0;       // of the last time it ran
  std::string result = "{}";  // what the command returned, as JSON
};

class RecipeRunner {
 public:
  /// Runs a command of the program in this process; returns its result as JSON and throws if it fails.
  using RunCommand = std::function<std::string(const std::string& command, const Config& options)>;
  /// Tells a person what goes on, a line at a time.
  using Say = std::function<void(const std::string& line)>;

  RecipeRunner(Recipe recipe, RunCommand run_command, Say say);

  std::vector<StepOutcome> Run(const RunOptions& options);

 private:
  void CheckNames(const RunOptions& options) const;
  void CheckOrder() const;
  StepOutcome Visit(const RecipeStep& unexpanded, bool before_from, const RunOptions& options);
  bool DependsOnPlanned(const RecipeStep& step) const;
  void Execute(const RecipeStep& step, StepRecord record, StepOutcome& outcome);
  void RunScript(const RecipeStep& step) const;
  void TakeProvided(const RecipeStep& step);
  std::filesystem::path ConfigPath(const RecipeStep& step) const { return state_dir_ / (step.name + ".toml"); }

  Recipe recipe_;
  RunCommand run_command_;
  Say say_;
  std::filesystem::path state_dir_;
  std::vector<std::string> planned_outputs_;  // of steps that a dry run would make
};

/// "ran", "up to date", "not needed", "would run".
std::string_view StateName(StepOutcome::State state);

/// The table that ends a run: steps with state and time, then every score.
std::string SummaryTable(const Recipe& recipe, const std::vector<StepOutcome>& outcomes);

}  // namespace antiphon::recipe
