// From argv to a command and its configuration, and the help pages. All of it derives from the commands' own
// descriptions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/config.h"
#include "command.h"

namespace antiphon::app {

struct CommandLine {
  enum class Action { kRun, kPrint };  // kPrint: `text` is all there is to do (--help, --version)
  Action action = Action::kRun;
  std::string command;
  Config config;      // --config's file, --set over it, the flags over both
  int verbosity = 0;  // −1 quiet, 0, 1 verbose
  std::string text;
};

/// Throws UsageError with the nearest known command or option.
CommandLine ParseCommandLine(std::span<const std::string> arguments);

/// The list of commands, the page of one command, the commands of a group ("bench").
std::string ProgramHelp();
std::string CommandHelp(std::string_view name, const Command& command);
std::string GroupHelp(std::string_view group);
std::string VersionText();

}  // namespace antiphon::app
