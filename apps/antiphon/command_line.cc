#include "command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>

#include "base/suggest.h"
#include "base/toml_text.h"

namespace antiphon::app {
namespace {

bool IsList(const OptionDescription& option) { return option.type.starts_with("list"); }

// The value of a flag as TOML of the option's type; what does not fit the type is refused when the options are read.
std::string FlagToToml(const OptionDescription& option, const std::vector<std::string>& values) {
  if (!IsList(option)) return option.type == "text" ? TomlString(values.back()) : values.back();
  // As files and help pages write it.
  if (values.size() == 1 && values[0].starts_with('[') && values[0].ends_with(']')) return values[0];
  std::string list = "[";
  for (const std::string& value : values) {
    // Positional lists and repeated flags give one element each; "1,2,3" gives three, unless a file is called that.
    std::error_code none;
    const bool is_file = option.type == "list of texts" && std::filesystem::exists(value, none);
    for (const std::string& element : is_file ? std::vector{value} : CLI::detail::split(value, ',')) {
      if (list.size() > 1) list += ", ";
      list += option.type == "list of texts" ? TomlString(element) : element;
    }
  }
  return list + "]";
}

std::vector<OptionDescription> AllOptions(const Command& command) {
  std::vector<OptionDescription> options = command.options();
  for (OptionDescription& common : DescribeOptions<CommonOptions>()) {
    const bool own = std::any_of(options.begin(), options.end(), [&](const auto& o) { return o.name == common.name; });
    if (!own) options.push_back(std::move(common));
  }
  return options;
}

// One command's CLI11 parser and what it filled.
class Parser {
 public:
  Parser(std::string name, const Command& command) : name_(std::move(name)), options_(AllOptions(command)) {
    app_.set_help_flag();
    app_.allow_extras();
    app_.prefix_command(false);
    app_.add_flag("-h,--help", help_);
    app_.add_option("--config", files_)->expected(1)->allow_extra_args(false);
    app_.add_option("--set", assignments_)
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app_.add_flag("-q,--quiet", quiet_);
    app_.add_flag("-v,--verbose", verbose_);
    app_.add_flag("--check-options", check_);
    for (const OptionDescription& option : options_) AddOption(option);
    AddPositionals(command.info());
  }

  CommandLine Parse(std::vector<std::string> arguments) {
    RefuseValuesOfSwitches(arguments);
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    try {
      app_.parse(std::move(arguments));
    } catch (const CLI::ParseError& e) {
      throw UsageError(e.what());
    }
    CommandLine line;
    line.command = name_;
    line.verbosity = verbose_ ? 1 : quiet_ ? -1 : 0;
    if (help_) {
      line.action = CommandLine::Action::kPrint;
      const std::vector<std::string> beside = app_.remaining();
      line.all = std::find(beside.begin(), beside.end(), "all") != beside.end();
      return line;
    }
    RefuseExtras();
    if (!files_.empty()) line.config = Config::Load(files_);
    for (const std::string& assignment : assignments_) line.config.SetFromFlag(assignment);
    for (const OptionDescription& option : options_) {
      if (const auto it = values_.find(option.name); it != values_.end() && !it->second.empty()) {
        line.config.Set(option.name, FlagToToml(option, it->second));
      }
    }
    if (check_) line.action = CommandLine::Action::kCheck;
    return line;
  }

 private:
  void AddOption(const OptionDescription& option) {
    auto& values = values_[option.name];
    flags_.push_back("--" + option.name);
    if (option.type == "true|false") {
      app_.add_flag_function("--" + option.name + "{true},--no-" + option.name + "{false}", [](int64_t) {})
          ->each([&values](const std::string& value) { values = {value}; });
      return;
    }
    app_.add_option("--" + option.name, values)
        ->expected(1)
        ->allow_extra_args(false)
        ->multi_option_policy(IsList(option) ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
  }

  void AddPositionals(const CommandInfo& info) { positionals_ = info.positionals; }

  // "--deep false" would turn it on, and take "false" for what is to be read.
  void RefuseValuesOfSwitches(const std::vector<std::string>& arguments) const {
    for (size_t i = 0; i + 1 < arguments.size(); ++i) {
      if (arguments[i + 1] != "true" && arguments[i + 1] != "false") continue;
      for (const OptionDescription& option : options_) {
        if (option.type != "true|false" || arguments[i] != "--" + option.name) continue;
        Throw<UsageError>("'{} {}': a switch takes no value; write --{} or --no-{}", arguments[i], arguments[i + 1],
                          option.name, option.name);
      }
    }
  }

  // What CLI11 did not know: positionals in their order, or a mistake.
  void RefuseExtras() {
    std::deque<std::string> names(positionals_.begin(), positionals_.end());
    for (const std::string& extra : app_.remaining()) {
      if (extra.size() > 1 && extra[0] == '-' && extra != "--") RefuseFlag(extra);
      if (extra == "--") continue;
      while (!names.empty() && !values_.at(names.front()).empty() && taken_ != names.front()) names.pop_front();
      if (names.empty()) {
        Throw<UsageError>(
            "'{}' is one argument too many{}", extra,
            positionals_.empty() ? std::string() : fmt::format(" (takes: {})", fmt::join(positionals_, ", ")));
      }
      values_.at(names.front()).push_back(extra);
      taken_ = names.front();
      if (!IsListOption(names.front())) names.pop_front();
    }
  }

  [[noreturn]] void RefuseFlag(const std::string& flag) {
    std::vector<std::string> known = flags_;
    for (const char* common : {"--config", "--set", "--help", "--quiet", "--verbose", "--check-options"})
      known.emplace_back(common);
    throw UsageError(UnknownNameMessage("option", flag.substr(0, flag.find('=')), known) + "; --help all lists them");
  }

  bool IsListOption(const std::string& name) const {
    return std::any_of(options_.begin(), options_.end(), [&](const auto& o) { return o.name == name && IsList(o); });
  }

  std::string name_;
  std::vector<OptionDescription> options_;
  std::vector<std::string> positionals_;
  std::vector<std::string> flags_;
  CLI::App app_;
  bool help_ = false;
  bool quiet_ = false;
  bool verbose_ = false;
  bool check_ = false;
  std::string files_;
  std::vector<std::string> assignments_;
  std::map<std::string, std::vector<std::string>> values_;
  std::string taken_;
};

// The command that the leading words name ("bench train" before "bench"), and how many words that takes.
std::pair<std::string, size_t> FindCommand(std::span<const std::string> arguments) {
  const auto& registry = CommandRegistry::Get();
  if (arguments.size() >= 2 && registry.Has(arguments[0] + " " + arguments[1])) {
    return {arguments[0] + " " + arguments[1], 2};
  }
  if (registry.Has(arguments[0])) return {arguments[0], 1};
  return {"", 0};
}

CommandLine PrintOnly(std::string text) {
  CommandLine line;
  line.action = CommandLine::Action::kPrint;
  line.text = std::move(text);
  return line;
}

[[noreturn]] void RefuseCommand(std::span<const std::string> arguments) {
  std::vector<std::string> names = CommandRegistry::Get().Names();
  if (!GroupHelp(arguments[0]).empty()) {
    const std::string name = arguments[0] + (arguments.size() > 1 ? " " + arguments[1] : "");
    std::erase_if(names, [&](const std::string& n) { return !n.starts_with(arguments[0] + " "); });
    throw UsageError(UnknownNameMessage("command", name, names));
  }
  throw UsageError(UnknownNameMessage("command", arguments[0], names));
}

// help --reference, --commands, --man [COMMAND], --completion SHELL: pages for other programs to read.
std::string PageForTools(std::span<const std::string> words) {
  const std::string& page = words[0];
  if (page == "--man" && words.size() > 1) {
    const auto [name, taken] = FindCommand(words.subspan(1));
    if (taken == 0) RefuseCommand(words.subspan(1));
    if (words.size() == taken + 1) return ManPage(name, *CommandRegistry::Get().Create(name));
  }
  if (page == "--completion" && words.size() == 2) return Completion(words[1]);
  if (page == "--completion") throw UsageError("--completion: expected the name of a shell, bash or zsh");
  if (words.size() == 1) {
    if (page == "--man") return ProgramManPage();
    if (page == "--reference") return Reference();
    if (page == "--commands") return fmt::format("{}\n", fmt::join(CommandRegistry::Get().Names(), "\n"));
    throw UsageError(UnknownNameMessage("page", page, {"--commands", "--completion", "--man", "--reference"}));
  }
  Throw<UsageError>("help {}: '{}' is one argument too many", page, words.back());
}

}  // namespace

std::vector<OptionDescription> OptionsOfTheLine() {
  return {{"config", "file", "", "", "TOML file with any of a command's keys"},
          {"set", "key=value", "", "", "sets one key over the file (may be repeated)"},
          {"help", "true|false, or all", "", "", "the common options and an example; all: every option"},
          {"check-options", "true|false", "", "", "check command line and configuration, and run nothing"},
          {"quiet", "true|false", "", "", "only warnings and errors"},
          {"verbose", "true|false", "", "", "more about what happens"}};
}

CommandLine ParseCommandLine(std::span<const std::string> arguments) {
  if (arguments.empty()) throw UsageError("a command is missing; antiphon --help lists them");
  const std::string& first = arguments[0];
  if (first == "--version") return PrintOnly(VersionText());
  if (first == "--help" || first == "-h" || first == "help") {
    if (arguments.size() == 1) return PrintOnly(ProgramHelp());
    std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
    if (rest == std::vector<std::string>{"all"}) return PrintOnly(ProgramHelp());
    if (rest[0].starts_with("--")) return PrintOnly(PageForTools(rest));
    rest.emplace_back("--help");
    return ParseCommandLine(rest);
  }
  if (first.starts_with("-")) {
    throw UsageError(UnknownNameMessage("option", first, {"--help", "--version"}) +
                     "; a command comes before its options");
  }
  const auto found = FindCommand(arguments);
  const auto& name = found.first;
  const auto words = found.second;
  if (words == 0) {
    const bool asks = arguments.size() == 1 || arguments[1] == "--help" || arguments[1] == "-h";
    if (std::string group = GroupHelp(first); asks && !group.empty()) return PrintOnly(std::move(group));
    RefuseCommand(arguments);
  }
  const auto command = CommandRegistry::Get().Create(name);
  return WithContext(
      [&] {
        Parser parser(name, *command);
        CommandLine line = parser.Parse({arguments.begin() + static_cast<std::ptrdiff_t>(words), arguments.end()});
        if (line.action == CommandLine::Action::kPrint) line.text = CommandHelp(name, *command, line.all);
        return line;
      },
      [&, &name = name] { return fmt::format("antiphon {}", name); });
}

}  // namespace antiphon::app
