// antiphon top: looks at a training run while it goes on.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "base/cancel.h"
#include "base/error.h"
#include "command.h"
#include "report/metrics.h"
#include "report/pages/run_overview.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct TopOptions {
  std::string run;
  double interval = 2;
  bool once = false;
  int width = 160;
  template <class V>
  void Visit(V& v) {
    v("run", run, "folder of a training run");
    v("interval", interval, Range{0.1, 3600}, "seconds between two looks");
    v("once", once, "look once, and end");
    v("width", width, Range{20, 10000}, "longest line, in columns");
  }
};

constexpr const char* kClearScreen = "\033[H\033[2J";

// "metrics.jsonl, written 12 s ago".
std::string Age(const fs::path& metrics) {
  const auto age = fs::file_time_type::clock::now() - fs::last_write_time(metrics);
  return fmt::format("{}, written {:.0f} s ago", metrics.string(), std::chrono::duration<double>(age).count());
}

bool Ended(const std::vector<report::MetricsRecord>& records) {
  return !records.empty() && records.back().kind() == "finish";
}

std::string LastOfEachKind(const std::vector<report::MetricsRecord>& records) {
  std::map<std::string, const report::MetricsRecord*> last;
  for (const report::MetricsRecord& record : records) last[record.kind()] = &record;
  nlohmann::json json;
  for (const auto& [kind, record] : last) json[kind] = nlohmann::json::parse(record->ToJson());
  return json.dump(2);
}

// Until the time is over, or somebody asks for the end.
void Rest(double seconds) {
  constexpr double kBetweenLooks = 0.1;
  for (double left = seconds; left > 0 && !CancelRequested(); left -= kBetweenLooks) {
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kBetweenLooks)));
  }
}

void Top(const TopOptions& options, CommandContext& context) {
  const fs::path metrics = fs::path(options.run) / "metrics.jsonl";
  if (!fs::exists(metrics)) {
    Throw<InputError>("'{}' is not there: give the folder of a training run (antiphon train --out)", metrics.string());
  }
  const bool redraws = !options.once && ::isatty(STDOUT_FILENO) == 1;
  for (;;) {
    const std::vector<report::MetricsRecord> records = report::ReadMetrics(metrics);
    std::string page = redraws ? kClearScreen + Age(metrics) : Age(metrics);
    for (const std::string& line : report::OverviewOfRun(records, options.width)) page += "\n" + line;
    context.PrintLine(page);
    if (!options.once && !Ended(records)) Rest(options.interval);
    if (options.once || Ended(records) || CancelRequested()) return context.SetResult(LastOfEachKind(records));
  }
}

REGISTER_COMMAND(
    "top", TopOptions, Top,
    {.summary = "watch a training run: progress, speed, and what each worker does",
     .description = "Reads the run's metrics.jsonl every few seconds, from any machine that sees the folder, "
                    "and shows progress, losses, speed and each worker's time in arithmetic, waiting, "
                    "exchange and reading. Ends with the run.",
     .example = "antiphon top exp/dnn\nantiphon top exp/dnn --once --json",
     .positionals = {"run"},
     .required = {"run"}});

}  // namespace
}  // namespace antiphon::app
