#include "command.h"

#include <algorithm>

#include "base/compute_threads.h"
#include "base/suggest.h"
#include "base/thread_pool.h"
#include "device/device_list.h"

namespace antiphon::app {

void CommandContext::PrintLine(std::string_view line) {
  if (!common_.json && !silent_) out_ << line << std::endl;
}

CommonOptions ReadCommonOptions(const Config& config) {
  Config common;
  for (const OptionDescription& option : DescribeOptions<CommonOptions>()) {
    if (option.type == "integer") {
      if (const auto value = config.Int(option.name)) common.Set(option.name, fmt::format("{}", *value));
    } else if (option.type == "text") {
      if (const auto value = config.Text(option.name)) common.Set(option.name, *value);
    } else if (const auto value = config.Bool(option.name)) {
      common.Set(option.name, *value ? "true" : "false");
    }
  }
  auto options = ReadOptions<CommonOptions>(common);
  if (options.threads == 0) options.threads = NumCores();
  RequireDevices(options.device);
  return options;
}

void CheckRequired(const CommandInfo& info, const Config& config) {
  // What lists the methods that there are needs nothing to work on.
  if (config.Text("method") == "list") return;
  for (const std::string& key : info.required) {
    if (config.Has(key)) continue;
    const auto& names = info.positionals;
    if (std::find(names.begin(), names.end(), key) != names.end()) {
      std::string upper = key;
      std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
      Throw<UsageError>("{} (or --{}) is missing; --help shows an example", upper, key);
    }
    Throw<UsageError>("--{} (in a file: {} = …) is missing; --help shows an example", key, key);
  }
}

std::vector<std::string> OtherKeys(const CommandInfo& info) {
  std::vector<std::string> keys = info.tables;
  for (const OptionDescription& option : DescribeOptions<CommonOptions>()) keys.push_back(option.name);
  return keys;
}

std::string RunCommand(std::string_view name, const Config& config, std::ostream& out) {
  const auto names = CommandRegistry::Get().Names();
  if (!CommandRegistry::Get().Has(name)) throw UsageError(UnknownNameMessage("command", name, names));
  const auto command = CommandRegistry::Get().Create(name);
  return WithContext(
      [&] {
        CheckRequired(command->info(), config);
        CommandContext context(config, ReadCommonOptions(config), out);
        SetComputeThreads(context.threads());
        const auto print_result = [&] {
          if (context.json() && !context.silent()) out << context.result() << std::endl;
        };
        try {
          command->Run(context);
        } catch (const Error&) {
          if (context.has_result()) print_result();  // of a check that found something
          throw;
        }
        print_result();
        return context.result();
      },
      [&] { return fmt::format("antiphon {}", name); });
}

}  // namespace antiphon::app
