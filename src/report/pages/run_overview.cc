#include "report/pages/run_overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/loss_text.h"
#include "base/utf8.h"
#include "report/progress.h"
#include "report/rank_time_keys.h"
#include "report/text_table.h"

namespace antiphon::report {
namespace {

constexpr int kBarColumns = 30;
constexpr char kMarks[] = {'#', '.', '=', 'r', '-'};  // of a worker's bar, by kRankTimes

struct LatestRecords {
  MetricsRecord start, step, epoch, event, finish;
  explicit LatestRecords(const std::vector<MetricsRecord>& records) {
    for (const MetricsRecord& record : records) {
      if (record.kind() == "start") start = record;
      if (record.kind() == "step") step = record;
      if (record.kind() == "epoch") epoch = record;
      if (record.kind() == "event") event = record;
      // A run that goes on behind its end is not finished.
      finish = record.kind() == "finish" ? record : MetricsRecord();
    }
  }
  // Of a run that logs few steps, the last epoch.
  const MetricsRecord& last() const { return step.Has("kind") ? step : epoch; }
};

std::string ProgressLine(const LatestRecords& latest) {
  if (latest.finish.Has("epochs")) {
    return fmt::format("finished after {} epochs, {}", latest.finish.Number("epochs").value_or(0),
                       FormatDuration(latest.finish.Number("seconds").value_or(0)));
  }
  if (!latest.step.Has("kind") && latest.epoch.Has("kind")) {
    return fmt::format("epoch {} done, step {}", latest.epoch.Number("epoch").value_or(0),
                       latest.epoch.Number("step").value_or(0));
  }
  const double progress = latest.step.Number("progress").value_or(0);
  const auto filled = static_cast<size_t>(std::clamp(progress, 0.0, 1.0) * kBarColumns);
  std::string line = fmt::format("[{}{}] {:.1f} %, epoch {}, step {}", std::string(filled, '#'),
                                 std::string(kBarColumns - filled, ' '), 100 * progress,
                                 latest.step.Number("epoch").value_or(1), latest.step.Number("step").value_or(0));
  const double speed = latest.step.Number("frames_per_second").value_or(0);
  const double frames = latest.step.Number("frames").value_or(0);
  if (progress > 0 && speed > 0) {
    line += fmt::format(", {} left", FormatDuration(frames * (1 / progress - 1) / speed));
  }
  return line;
}

std::string LossLine(const LatestRecords& latest) {
  const MetricsRecord& end = latest.finish.Has("epochs") ? latest.finish : latest.epoch;
  std::string line =
      fmt::format("train loss {}, accuracy {:.2f} %", LossText(latest.last().Number("train_loss").value_or(NAN)),
                  100 * latest.last().Number("train_accuracy").value_or(NAN));
  if (end.Has("held_out_loss")) {
    line += fmt::format("; held-out loss {}, accuracy {:.2f} %", LossText(end.Number("held_out_loss").value_or(NAN)),
                        100 * end.Number("held_out_accuracy").value_or(NAN));
  }
  return line;
}

// Rounded so that the parts make up the whole.
std::string Bar(const std::vector<double>& shares) {
  std::string bar;
  double sum = 0;
  for (size_t k = 0; k < shares.size(); ++k) {
    sum += shares[k];
    const auto end = static_cast<size_t>(std::lround(std::min(1.0, sum) * kBarColumns));
    if (end > bar.size()) bar.append(end - bar.size(), kMarks[k]);
  }
  return bar;
}

std::vector<std::string> WorkerLines(const MetricsRecord& epoch) {
  std::vector<std::vector<double>> times;
  for (const char* name : kRankTimes) times.push_back(epoch.List(RankTimeKey(name)));
  const std::vector<double> machines = epoch.List("rank_machines");
  std::vector<std::vector<std::string>> rows = {{"worker", "machine", "time"}};
  for (const char* name : kRankTimes) rows[0].emplace_back(name);
  for (size_t r = 0; r < times[0].size(); ++r) {
    std::vector<double> shares;
    for (const std::vector<double>& of_ranks : times) shares.push_back(r < of_ranks.size() ? of_ranks[r] : 0);
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (double& share : shares) share = sum > 0 ? share / sum : 0;
    rows.push_back({fmt::format("{}", r), r < machines.size() ? fmt::format("{:.0f}", machines[r]) : "", Bar(shares)});
    for (const double share : shares) rows.back().push_back(fmt::format("{:.0f} %", 100 * share));
  }
  return rows.size() > 1 ? TextTable(rows) : std::vector<std::string>();
}

// As many whole characters as fit into so many columns.
std::string Beginning(std::string_view line, size_t width) {
  size_t bytes = 0;
  for (size_t columns = 0; bytes < line.size();) {
    const size_t next = std::max<size_t>(FirstCodePoint(line.substr(bytes)).bytes, 1);
    columns += DisplayColumns(line.substr(bytes, next));
    if (columns > width) break;
    bytes += next;
  }
  return std::string(line.substr(0, bytes));
}

}  // namespace

std::string LongestWait(const MetricsRecord& epoch) {
  const std::vector<double> longest = epoch.List("longest_wait");
  const std::vector<double> awaited = epoch.List("rank_awaited_seconds");
  if (longest.size() != 3 || longest[2] <= 0) return "";
  const auto peer = static_cast<size_t>(longest[1]);
  return fmt::format(
      "longest wait of the last epoch: worker {:.0f}, {:.3g} s for worker {}, for which all waited {:.3g} s",
      longest[0], longest[2], peer, peer < awaited.size() ? awaited[peer] : 0);
}

std::vector<std::string> OverviewOfRun(const std::vector<MetricsRecord>& records, int width) {
  const LatestRecords latest(records);
  if (!latest.start.Has("kind") && !latest.last().Has("kind")) return {"no step yet"};
  std::vector<std::string> lines = {ProgressLine(latest)};
  if (latest.last().Has("kind")) lines.push_back(LossLine(latest));
  lines.push_back(fmt::format("{} frames/s, learning rate {:.4g}",
                              FormatCount(latest.last().Number("frames_per_second").value_or(0)),
                              latest.last().Number("learning_rate").value_or(0)));
  if (latest.event.Has("message")) lines.push_back("last event: " + latest.event.Text("message"));
  const std::vector<std::string> workers = WorkerLines(latest.epoch);
  if (!workers.empty()) {
    lines.emplace_back("time of the last epoch's steps: # arithmetic, . waiting, = exchange, r reading, - other");
    lines.insert(lines.end(), workers.begin(), workers.end());
    lines.push_back(LongestWait(latest.epoch));
  }
  for (std::string& line : lines) line = Beginning(line, static_cast<size_t>(width));
  return lines;
}

}  // namespace antiphon::report
