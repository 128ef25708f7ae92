#include "recipe/state.h"

#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace antiphon::recipe {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kChecksumBytes = 1 << 20;
// Raised whenever a command's output for the same input changes, so that old experiments are made anew.
constexpr std::string_view kVersion = "0.1.0";

std::string FileStamp(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) Throw<InputError>("'{}' vanished while it was looked at", path.string());
  const auto size = static_cast<uintmax_t>(status.st_size);
  if (size <= kChecksumBytes) return fmt::format("{} bytes, sum {:016x}", size, Checksum(ReadFile(path)));
  return fmt::format("{} bytes, changed {}.{:09}", size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

void StampInput(const fs::path& path, std::map<std::string, std::string>& stamps) {
  if (!fs::exists(path)) {
    Throw<InputError>(
        "its input '{}' does not exist; make it with an earlier step (without --from) or say where it lies (--set)",
        path.string());
  }
  if (!fs::is_directory(path)) {
    stamps[path.string()] = FileStamp(path);
    // A table's index stays the same when its values change.
    const fs::path values = fs::path(path).replace_extension(".ark");
    if (path.extension() == ".scp" && fs::exists(values)) stamps[values.string()] = FileStamp(values);
    return;
  }
  for (const auto& entry : fs::recursive_directory_iterator(path, fs::directory_options::follow_directory_symlink)) {
    if (entry.is_regular_file()) stamps[entry.path().string()] = FileStamp(entry.path());
  }
}

std::string OutputStamp(const fs::path& path) {
  return fs::is_directory(path) ? "folder" : fmt::format("{} bytes", fs::file_size(path));
}

std::string ShellWord(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("-_./=+,:%@").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') out += "'\\'";
    out += c;
  }
  out += '\'';
  return out;
}

}  // namespace

std::string CommandLine(const RecipeStep& step, const fs::path& config) {
  std::string line = step.script;
  if (step.script.empty()) line = fmt::format("antiphon {} --config {}", step.command, ShellWord(config.string()));
  for (const std::string& argument : step.arguments) line += " " + ShellWord(argument);
  return line;
}

StepRecord DescribeStep(const RecipeStep& step) {
  StepRecord record;
  record.version = kVersion;
  record.command_line = CommandLine(step, "");
  record.options = step.options_toml;
  for (const std::string& input : step.inputs) StampInput(input, record.inputs);
  if (!step.script.empty()) StampInput(step.script_dir / step.script, record.inputs);
  return record;
}

void RecordOutputs(const RecipeStep& step, StepRecord& record) {
  for (const std::string& output : step.outputs) {
    if (!fs::exists(output)) {
      Throw<InputError>("step '{}' ended without its output '{}'", step.name, output);
    }
    record.outputs[output] = OutputStamp(output);
  }
}

void SaveRecord(const fs::path& folder, const std::string& step_name, const StepRecord& record) {
  const nlohmann::ordered_json json = {{"step", step_name},
                                       {"version", record.version},
                                       {"command", record.command_line},
                                       {"options", record.options},
                                       {"inputs", record.inputs},
                                       {"outputs", record.outputs},
                                       {"result", nlohmann::json::parse(record.result)},
                                       {"seconds", record.seconds}};
  WriteFileAtomically(folder / (step_name + ".json"), json.dump(1) + "\n");
}

std::optional<StepRecord> LoadRecord(const fs::path& folder, const std::string& step_name) {
  const fs::path path = folder / (step_name + ".json");
  if (!fs::exists(path)) return std::nullopt;
  try {
    const auto json = nlohmann::json::parse(ReadFile(path));
    StepRecord record;
    record.version = json.at("version").get<std::string>();
    record.command_line = json.at("command").get<std::string>();
    record.options = json.at("options").get<std::string>();
    record.inputs = json.at("inputs").get<std::map<std::string, std::string>>();
    record.outputs = json.at("outputs").get<std::map<std::string, std::string>>();
    record.result = json.at("result").dump();
    record.seconds = json.at("seconds").get<double>();
    return record;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::string ReasonToRun(const RecipeStep& step, const StepRecord& now, const std::optional<StepRecord>& before) {
  if (!before) return "not made yet";
  if (now.version != before->version) return fmt::format("made by version {}", before->version);
  if (now.command_line != before->command_line) return fmt::format("the command was '{}'", before->command_line);
  if (now.options != before->options) return "its options changed";
  for (const auto& [path, stamp] : now.inputs) {
    const auto it = before->inputs.find(path);
    if (it == before->inputs.end()) return fmt::format("the input '{}' is new", path);
    if (it->second != stamp) return fmt::format("the input '{}' changed", path);
  }
  for (const auto& [path, stamp] : before->inputs) {
    if (!now.inputs.contains(path)) return fmt::format("the input '{}' is gone", path);
  }
  for (const std::string& path : step.outputs) {
    if (!before->outputs.contains(path)) return fmt::format("the output '{}' is new", path);
  }
  for (const auto& [path, stamp] : before->outputs) {
    if (!fs::exists(path)) return fmt::format("the output '{}' is missing", path);
    if (OutputStamp(path) != stamp) return fmt::format("the output '{}' was changed by somebody else", path);
  }
  return "";
}

bool IsSameAttempt(const StepRecord& now, const std::optional<StepRecord>& begun) {
  return begun && now.version == begun->version && now.command_line == begun->command_line &&
         now.options == begun->options && now.inputs == begun->inputs;
}

}  // namespace antiphon::recipe
