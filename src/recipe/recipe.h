// A recipe: the steps from recordings to words, as a TOML file.
//
//   title = "Spoken digits"
//   [vars]                                   # defaults; `antiphon run X.toml --set data=DIR` replaces them
//   data = "data/fsdd"
//   exp = "exp/fsdd"
//   sets = "train dev test"
//   [[step]]
//   name = "features-${set}"
//   foreach = { set = "${sets}" }            # the step once per word of the list
//   command = "features"                     # an antiphon command, run inside this process,
//   options = { data = "${data}/${set}", out = "${exp}/${set}", kind = "mfcc" }   # with this configuration
//   inputs = ["${data}/${set}"]              # files or folders
//   outputs = ["${exp}/${set}/feats.scp"]
//   [[step]]
//   name = "speech"
//   script = "make_data.py"                  # or a program beside the recipe
//   arguments = ["--out", "${exp}/speech"]
//   outputs = ["${exp}/speech"]
//
// include = "corpus.toml" (a file beside this one) takes over another recipe: variables given here replace its own, a
// [[step]] with the name of an inherited one changes only the keys and options that it gives (a table of options with a
// `type` replaces the inherited table), and a new step stands at the end, or where before = "STEP" says.
//
// ${x:+text} is `text` (with its own variables) if x holds (IsTrue), else nothing.
//
// Further keys of a step: `when` and `unless` (run only if the text does, or does not, hold) and `provides` (a TOML
// file among the outputs whose values become variables of later steps) and `always = true` (never up to date; needs no
// outputs). A table in a list of the options stands there only if its own `when` holds. An input that expands to
// nothing is none. Variables that every recipe has: ${recipe_dir} (of the file where it stands), ${threads}, ${exp}
// ("exp/" and the recipe's name unless it says otherwise). A whole value "${x}" takes the type of x. Errors: UsageError
// with file:line, in the file that says so, for unknown keys and variables, naming the nearest known one; for an
// include of no file, or in a circle.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"

namespace antiphon::recipe {

/// Values of ${…} by name. A value may refer to others.
class RecipeVariables {
 public:
  void Set(const std::string& name, std::string value) { values_[name] = std::move(value); }
  bool Has(const std::string& name) const { return values_.contains(name); }
  std::vector<std::string> Names() const;

  /// Replaces every ${name}; `where` stands in front of errors. With `keep_unknown`, unknown names stay as they are.
  std::string Expand(std::string_view text, const std::string& where, bool keep_unknown = false) const;
  /// The same in the texts of a TOML table, where one that is nothing but "${name}" becomes a number, boolean or list
  /// if its value is one.
  std::string ExpandToml(std::string_view toml, const std::string& where, bool keep_unknown = false) const;

 private:
  std::string Expand(std::string_view text, const std::string& where, bool keep_unknown, int depth) const;
  std::map<std::string, std::string> values_;
};

/// One step as it stands in the file, with its foreach already spread; ${…} not yet replaced but for the foreach
/// variables.
struct RecipeStep {
  std::string name;
  std::string where;    // file:line
  std::string command;  // or
  std::string script;
  std::filesystem::path script_dir;    // where the file that names the script lies
  std::vector<std::string> arguments;  // of a script
  std::string options_toml;            // of a command; "" if none
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::string when;  // "" if always
  std::string unless;
  std::string provides;
  bool always = false;
};

struct Recipe {
  std::string title;
  std::filesystem::path path;
  RecipeVariables variables;
  std::vector<RecipeStep> steps;
  std::map<std::string, std::string> told = {};  // what a person said over the file: "NAME" or "STEP.OPTION" → value
};

/// Reads a recipe; `assignments` are "variable=value", or "step.option=value" for an option of a step.
Recipe LoadRecipe(const std::filesystem::path& path, const std::vector<std::string>& assignments);

/// Gives every command an option, but those that have it already.
void SetOptionOfAll(Recipe& recipe, const std::string& option, const std::string& value);

/// A step with every variable replaced; UsageError if its name could not be that of a file. With `keep_unknown`, those
/// that an earlier step has yet to provide stay as
/// ${…}.
RecipeStep ExpandStep(const RecipeStep& step, const RecipeVariables& variables, bool keep_unknown = false);

/// False for "", "false", "no", "0" and "[]".
bool IsTrue(std::string_view text);

}  // namespace antiphon::recipe
