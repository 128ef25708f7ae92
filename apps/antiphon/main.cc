// antiphon COMMAND …: exit status 0, 1 (failed), 2 (wrong usage) or 3 (stopped on request). The commands are the other
// files of this folder.
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "base/open_files.h"
#include "command.h"
#include "command_line.h"
#include "log_sink.h"

namespace antiphon::app {
namespace {

void FlushOutput() {
  if (!std::cout.flush()) throw IoError("cannot write to standard output");
}

int Main(const std::vector<std::string>& arguments) {
  const CommandLine line = ParseCommandLine(arguments);
  if (line.action == CommandLine::Action::kPrint) {
    std::cout << line.text;
    FlushOutput();
    return 0;
  }
  InstallLogSink(line.verbosity);
  if (line.action == CommandLine::Action::kCheck) {
    CheckCommand(line.command, line.config);
    std::cout << "antiphon " << line.command << ": the options are right; nothing was run" << std::endl;
    return 0;
  }
  InstallCancelHandlers();
  // A file that may grow no longer is an error of writing like a full disk, not a reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  RaiseOpenFileLimit();
  RunCommand(line.command, line.config, std::cout);
  FlushOutput();
  return 0;
}

int Fail(const char* message, int status) {
  std::fprintf(stderr, "antiphon: error: %s\n", message);
  return status;
}

}  // namespace
}  // namespace antiphon::app

int main(int argc, char** argv) {
  using antiphon::app::Fail;
  try {
    return antiphon::app::Main(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const antiphon::UsageError& e) {
    return Fail(e.what(), 2);
  } catch (const antiphon::Cancelled& e) {
    return Fail(e.what(), 3);
  } catch (const std::bad_alloc&) {
    return Fail("out of memory: use fewer threads, a smaller minibatch or a smaller model", 1);
  } catch (const std::filesystem::filesystem_error& e) {
    const std::string path = e.path1().empty() ? "a file or folder" : "'" + e.path1().string() + "'";
    return Fail((path + ": " + e.code().message() + "; see who owns it and what it is").c_str(), 1);
  } catch (const std::exception& e) {
    return Fail(e.what(), 1);
  }
}
