// The commands of the program: one file per command, which describes itself, and registers itself.
//
//   // apps/antiphon/score.cc
//   struct ScoreCommandOptions {
//     std::string reference, hypotheses;
//     bool per_speaker = false;
//     template <class V> void Visit(V& v) {
//       v("reference", reference, "Kaldi text file with what was said");
//       ...
//     }
//   };
//   void Score(const ScoreCommandOptions& options, CommandContext& context) { ... }
//   REGISTER_COMMAND("score", ScoreCommandOptions, Score,
//                    {.summary = "word and character error rate",
//                     .example = "antiphon score data/test/text exp/decode/text --per-speaker",
//                     .positionals = {"reference", "hypotheses"}, .required = {"reference", "hypotheses"}});
//
// The framework gives every option as flag (--per-speaker), as key of --config's file and for --set, checks all of
// them, and prints the help. A name of two words ("bench train") makes a group. A component's own table goes into the
// struct with v.Group, or stays a table (CommandInfo::tables) that the command reads from context.config. Errors: a
// command throws; main maps UsageError to exit status 2, anything else to 1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/options.h"
#include "base/registry.h"

namespace antiphon::app {

/// What a command says about itself.
struct CommandInfo {
  std::string summary;                        // one line, small first letter, no full stop
  std::string description;                    // optional: more, in sentences
  std::string example;                        // one or more lines as typed
  std::vector<std::string> positionals = {};  // options that may stand without their flag, in this order; a last one
                                              // that is a list of texts takes the rest
  std::vector<std::string> required = {};     // options that must be given
  std::vector<std::string> tables = {};       // keys of the configuration that the command reads itself
  std::vector<std::string> common = {};       // of many options, those that --help shows besides positionals and
                                              // required ones; --help all shows the rest
};

/// Options that every command takes; also keys of the configuration.
struct CommonOptions {
  int threads = 0;  // after reading: at least 1
  int64_t seed = 1;
  bool json = false;
  std::string device = "cpu";
  template <class V>
  void Visit(V& v) {
    v("threads", threads, Range{0, 4096}, "threads to compute with; 0: all cores that this process may use");
    v("seed", seed, Range{0, 9.0e15}, "seed of all random numbers");
    v("json", json, "print the result as one JSON object on standard output");
    v("device", device, "where to compute: cpu, or cuda, cuda:1 in a build that has it; several with commas");
  }
};

/// What a running command sees.
class CommandContext {
 public:
  CommandContext(Config config, CommonOptions common, std::ostream& out)
      : config_(std::move(config)), common_(std::move(common)), out_(out) {}

  /// Everything that was set: file, --set, flags.
  const Config& config() const { return config_; }
  int threads() const { return common_.threads; }
  uint64_t seed() const { return static_cast<uint64_t>(common_.seed); }
  bool json() const { return common_.json; }

  /// A line for the person on standard output; dropped with --json. Progress and remarks go to the log instead.
  template <class... Args>
  void Print(fmt::format_string<Args...> format, Args&&... args) {
    PrintLine(fmt::format(format, std::forward<Args>(args)...));
  }
  void PrintLine(std::string_view line);
  /// Where Print goes, for commands that run others; swallows everything with --json.
  std::ostream& out() { return common_.json || silent_ ? nowhere_ : out_; }

  /// Nothing is printed: another process of the same run speaks for all.
  void Silence(bool silent) { silent_ = silent; }
  bool silent() const { return silent_; }

  /// The command's result as the text of one JSON object: printed with --json, and handed to an in-process caller.
  /// Printed even if the command fails behind it.
  void SetResult(std::string json) { result_ = std::move(json); }
  std::string result() const { return result_.value_or("{}"); }
  bool has_result() const { return result_.has_value(); }

 private:
  Config config_;
  CommonOptions common_;
  std::ostream& out_;
  std::ostream nowhere_{nullptr};
  std::optional<std::string> result_;
  bool silent_ = false;
};

class Command {
 public:
  virtual ~Command() = default;
  virtual const CommandInfo& info() const = 0;
  virtual std::vector<OptionDescription> options() const = 0;
  virtual void Run(CommandContext& context) = 0;
  /// Throws what Run would throw for the command's own options (not its tables), before anything else.
  virtual void CheckOptions(const Config& config) const = 0;
};

using CommandRegistry = Registry<Command>;

/// Runs a command in this process with the options that `config` holds, as `antiphon NAME --config …` would; what it
/// prints goes to `out`. Returns the result (the text of a JSON object). Throws what the command throws, with its name
/// in front.
std::string RunCommand(std::string_view name, const Config& config, std::ostream& out);

/// For --check-options: throws UsageError for what a command, or a component that its tables choose, would refuse to
/// read; the same for each step of a recipe. Reads and writes no data.
void CheckCommand(std::string_view name, const Config& config);

/// The common keys of a configuration; the command's own reader refuses what neither knows. UsageError for devices that
/// are not there.
CommonOptions ReadCommonOptions(const Config& config);
/// Throws UsageError for a required option that is not there.
void CheckRequired(const CommandInfo& info, const Config& config);

/// Keys that a command's own option struct need not know.
std::vector<std::string> OtherKeys(const CommandInfo& info);

template <class Options>
class CommandOf : public Command {
 public:
  using Function = std::function<void(const Options&, CommandContext&)>;
  CommandOf(CommandInfo info, Function function) : info_(std::move(info)), function_(std::move(function)) {}
  const CommandInfo& info() const override { return info_; }
  std::vector<OptionDescription> options() const override { return DescribeOptions<Options>(); }
  void Run(CommandContext& context) override {
    function_(ReadOptions<Options>(context.config(), OtherKeys(info_)), context);
  }
  void CheckOptions(const Config& config) const override { ReadOptions<Options>(config, OtherKeys(info_)); }

 private:
  CommandInfo info_;
  Function function_;
};

}  // namespace antiphon::app

/// REGISTER_COMMAND("name", OptionStruct, Function, {.summary = …, .example = …}): see the top of this file.
#define REGISTER_COMMAND(name, Options, function, ...)                                                                \
  REGISTER_COMPONENT(::antiphon::app::CommandRegistry, name, [] {                                                     \
    return std::make_unique<::antiphon::app::CommandOf<Options>>(::antiphon::app::CommandInfo __VA_ARGS__, function); \
  })
