// Completion of command lines in bash and zsh: commands, their options, the values of options that have few, and files.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/suggest.h"
#include "command_line.h"

namespace antiphon::app {
namespace {

// All options of a command as flags.
std::vector<std::string> FlagsOf(const Command& command) {
  std::set<std::string> flags;
  auto options = command.options();
  for (const auto& more : {DescribeOptions<CommonOptions>(), OptionsOfTheLine()}) {
    options.insert(options.end(), more.begin(), more.end());
  }
  for (const OptionDescription& option : options) {
    flags.insert("--" + option.name);
    if (option.type == "true|false" && option.default_value == "true") flags.insert("--no-" + option.name);
  }
  return {flags.begin(), flags.end()};
}

// "command --option) words" for options that take one of few words, each with all other such options of the command.
std::string ValueCases(const std::string& name, const Command& command) {
  std::string cases;
  for (const OptionDescription& option : command.options()) {
    if (option.type != "text" || option.limits.find('|') == std::string::npos) continue;
    std::string words = option.limits;
    std::replace(words.begin(), words.end(), '|', ' ');
    cases += fmt::format("    '{} --{}') echo '{}' ;;\n", name, option.name, words);
  }
  return cases;
}

// Shell functions that both shells use: the words that may follow a command, an option.
std::string ShellTables() {
  std::string commands, flags, values;
  std::set<std::string> first;
  for (const std::string& name : CommandRegistry::Get().Names()) {
    const auto command = CommandRegistry::Get().Create(name);
    first.insert(name.substr(0, name.find(' ')));
    flags += fmt::format("    '{}') echo '{}' ;;\n", name, fmt::join(FlagsOf(*command), " "));
    values += ValueCases(name, *command);
  }
  std::string groups;
  for (const std::string& group : first) {
    std::vector<std::string> second;
    for (const std::string& name : CommandRegistry::Get().Names()) {
      if (name.starts_with(group + " ")) second.push_back(name.substr(group.size() + 1));
    }
    if (!second.empty()) groups += fmt::format("    '{}') echo '{}' ;;\n", group, fmt::join(second, " "));
  }
  return fmt::format(
      "_antiphon_commands() {{ echo '{} help'; }}\n"
      "_antiphon_group() {{\n  case \"$1\" in\n{}  esac\n}}\n"
      "_antiphon_flags() {{\n  case \"$1\" in\n{}  esac\n}}\n"
      "_antiphon_values() {{\n  case \"$1\" in\n{}  esac\n}}\n",
      fmt::join(first, " "), groups, flags, values);
}

constexpr char kBash[] = R"(_antiphon() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  local first=${COMP_WORDS[1]} second=${COMP_WORDS[2]} words=
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    words="$(_antiphon_commands) --help --version"
  elif [[ $first == help ]]; then
    ((COMP_CWORD == 2)) && words=$(_antiphon_commands) || words=$(_antiphon_group "$second")
  else
    local command=$first
    [[ -z $(_antiphon_flags "$first $second") ]] || command="$first $second"
    words=$(_antiphon_values "$command $before")
    [[ -n $words || $word != -* ]] || words=$(_antiphon_flags "$command")
    if ((COMP_CWORD == 2)) && [[ -z $words ]]; then words=$(_antiphon_group "$first"); fi
  fi
  if [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  else
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -F _antiphon antiphon
)";

constexpr char kZsh[] = R"(_antiphon() {
  local command=$words[2] before=$words[CURRENT-1] choice=
  if ((CURRENT == 2)); then
    choice="$(_antiphon_commands) --help --version"
  elif [[ $command == help ]]; then
    ((CURRENT == 3)) && choice=$(_antiphon_commands) || choice=$(_antiphon_group "$words[3]")
  else
    [[ -z $(_antiphon_flags "$command $words[3]") ]] || command="$command $words[3]"
    choice=$(_antiphon_values "$command $before")
    [[ -n $choice || $PREFIX != -* ]] || choice=$(_antiphon_flags "$command")
    if ((CURRENT == 3)) && [[ -z $choice ]]; then choice=$(_antiphon_group "$words[2]"); fi
  fi
  if [[ -n $choice ]]; then
    compadd -- ${=choice}
  else
    _files
  fi
}
_antiphon "$@"
)";

}  // namespace

std::string Completion(std::string_view shell) {
  if (shell == "bash") return "# Written by antiphon help --completion bash\n" + ShellTables() + kBash;
  if (shell == "zsh") return "#compdef antiphon\n# Written by antiphon help --completion zsh\n" + ShellTables() + kZsh;
  throw UsageError(UnknownNameMessage("shell", shell, {"bash", "zsh"}));
}

}  // namespace antiphon::app
