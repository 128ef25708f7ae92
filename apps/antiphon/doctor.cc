// antiphon doctor: what this machine and this build can do.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "command.h"
#include "machine.h"

namespace antiphon::app {
namespace {

struct DoctorOptions {
  std::string folder = ".";
  template <class V>
  void Visit(V& v) {
    v("folder", folder, "folder whose disk is looked at");
  }
};

void Doctor(const DoctorOptions& options, CommandContext& context) {
  if (!std::filesystem::is_directory(options.folder)) Throw<InputError>("'{}' is not a folder", options.folder);
  nlohmann::ordered_json result;
  for (const auto& [name, value] : ExamineMachine(options.folder)) result[name] = value;
  result["warnings"] = MachineWarnings(options.folder);
  for (const std::string& line : MachineText(options.folder)) context.PrintLine(line);
  context.SetResult(result.dump(2));
}

REGISTER_COMMAND("doctor", DoctorOptions, Doctor,
                 {.summary = "what this machine and this build can do",
                  .description = "CPU, instruction sets and kernels in use, libraries, memory, disk, MPI and CUDA.",
                  .example = "antiphon doctor\nantiphon doctor --json --folder /data",
                  .positionals = {"folder"}});

}  // namespace
}  // namespace antiphon::app
