#include "report/pages/sweep_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "base/file.h"
#include "base/printed_json.h"
#include "report/html.h"
#include "report/metrics.h"
#include "report/text_table.h"

namespace antiphon::report {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostCurves = 8;  // as many colours as there are

int Rank(SweptRun::State state) {
  switch (state) {
    case SweptRun::State::kFinished:
      return 0;
    case SweptRun::State::kGivenUp:
      return 1;
    case SweptRun::State::kUnderWay:
      return 2;
    case SweptRun::State::kWaiting:
      return 3;
    case SweptRun::State::kFailed:
      break;
  }
  return 4;
}

std::string StateText(const SweptRun& run) {
  switch (run.state) {
    case SweptRun::State::kFinished:
      return "finished";
    case SweptRun::State::kGivenUp:
      return fmt::format("given up after {} epoch(s)", run.epochs);
    case SweptRun::State::kUnderWay:
      return "under way";
    case SweptRun::State::kWaiting:
      return "waiting";
    case SweptRun::State::kFailed:
      break;
  }
  return "failed: " + run.failure.substr(0, run.failure.find('\n'));
}

std::vector<std::string> Header(const std::vector<SweptRun>& runs) {
  std::vector<std::string> header = {"run"};
  for (const auto& [key, value] : runs.empty() ? decltype(SweptRun::values)() : runs[0].values) header.push_back(key);
  header.insert(header.end(), {"held-out loss", "accuracy", "state"});
  return header;
}

std::vector<std::string> Cells(const SweptRun& run) {
  std::vector<std::string> cells = {fmt::format("{}", run.number)};
  for (const auto& [key, value] : run.values) cells.push_back(value);
  const bool known = std::isfinite(run.loss);
  cells.push_back(known ? fmt::format("{:.4f}", run.loss) : "–");
  cells.push_back(known ? fmt::format("{:.2f} %", 100 * run.accuracy) : "–");
  cells.push_back(StateText(run));
  return cells;
}

std::optional<double> NumberIn(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

LineChart CurvesOfBest(const std::vector<SweptRun>& runs) {
  LineChart chart{.title = "Held-out loss", .x_label = "epoch", .y_label = "nats per frame"};
  for (const SweptRun& run : runs) {
    if (chart.series.size() == kMostCurves) break;
    if (run.losses.empty()) continue;
    chart.series.push_back({.name = fmt::format("run {}", run.number), .points = run.losses, .markers = true});
  }
  if (runs.size() > kMostCurves) chart.note = fmt::format("The best {} of {} runs.", kMostCurves, runs.size());
  return chart;
}

// The loss against the values of one option; nothing where they are no numbers or all the same.
std::optional<LineChart> LossBy(size_t option, const std::vector<SweptRun>& runs) {
  Series finished{.name = "finished", .line = false};
  Series others{.name = "given up", .line = false};
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const SweptRun& run : runs) {
    const auto value = NumberIn(run.values[option].second);
    if (!value) return std::nullopt;
    if (!std::isfinite(run.loss)) continue;
    (run.state == SweptRun::State::kFinished ? finished : others).points.emplace_back(*value, run.loss);
    low = std::min(low, *value), high = std::max(high, *value);
  }
  if (low >= high) return std::nullopt;
  LineChart chart{.title = runs[0].values[option].first, .x_label = "value", .y_label = "held-out loss"};
  for (Series* series : {&finished, &others}) {
    std::sort(series->points.begin(), series->points.end());
    if (!series->points.empty()) chart.series.push_back(std::move(*series));
  }
  chart.log_x = low > 0 && high / low > 20;
  return chart;
}

}  // namespace

void TakeFigures(SweptRun& run) {
  const fs::path file = run.folder / "metrics.jsonl";
  if (!fs::exists(file)) return;
  run.losses.clear();
  for (const MetricsRecord& record : ReadMetrics(file)) {
    const auto loss = record.Number("held_out_loss");
    if (!loss) continue;
    if (record.kind() == "start") run.losses = {{0.0, *loss}};
    if (record.kind() != "epoch" && record.kind() != "finish") continue;
    run.loss = *loss;
    run.accuracy = record.Number("held_out_accuracy").value_or(0);
    if (record.kind() == "finish") continue;
    run.epochs = static_cast<int>(record.Number("epoch").value_or(0));
    run.losses.emplace_back(run.epochs, *loss);
  }
}

double LossAfter(const SweptRun& run, int epochs) {
  double loss = std::numeric_limits<double>::infinity();
  if (run.state == SweptRun::State::kFailed) return loss;
  for (const auto& [epoch, held_out] : run.losses) {
    if (epoch > 0 && epoch <= epochs && std::isfinite(held_out)) loss = held_out;
  }
  return loss;
}

std::vector<SweptRun> Sorted(std::vector<SweptRun> runs) {
  const auto key = [](const SweptRun& run) {
    const bool given_up = run.state == SweptRun::State::kGivenUp;
    const double loss = std::isfinite(run.loss) ? run.loss : std::numeric_limits<double>::infinity();
    return std::tuple(Rank(run.state), given_up ? -run.epochs : 0, loss, run.number);
  };
  std::sort(runs.begin(), runs.end(), [&](const SweptRun& a, const SweptRun& b) { return key(a) < key(b); });
  return runs;
}

std::string TextTable(const std::vector<SweptRun>& runs) {
  std::vector<std::vector<std::string>> rows = {Header(runs)};
  for (const SweptRun& run : runs) rows.push_back(Cells(run));
  std::string text;
  for (const std::string& line : TextTable(rows)) text += (text.empty() ? "" : "\n") + line;
  return text;
}

std::string MarkdownTable(const std::vector<SweptRun>& runs) {
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) {
      text += ' ';
      for (const char c : cell) text += c == '|' ? std::string("\\|") : std::string(1, c);
      text += " |";
    }
    return text + "\n";
  };
  const std::vector<std::string> header = Header(runs);
  std::string text = line(header);
  text += "|---|";
  for (size_t i = 1; i + 1 < header.size(); ++i) text += "--:|";
  text += "---|\n";
  for (const SweptRun& run : runs) text += line(Cells(run));
  return text;
}

std::string ToJson(const std::vector<SweptRun>& runs) {
  nlohmann::ordered_json json;
  json["runs"] = nlohmann::ordered_json::array();
  for (const SweptRun& run : runs) {
    nlohmann::ordered_json entry = {{"run", run.number}, {"folder", run.folder.string()}};
    entry["values"] = nlohmann::ordered_json::object();
    for (const auto& [key, value] : run.values) {
      const auto number = NumberIn(value);
      entry["values"][key] = number ? nlohmann::ordered_json(*number) : nlohmann::ordered_json(value);
    }
    static constexpr const char* kStates[] = {"finished", "given_up", "under_way", "waiting", "failed"};
    entry["state"] = kStates[Rank(run.state)];
    if (!run.failure.empty()) entry["failure"] = run.failure;
    if (std::isfinite(run.loss)) {
      entry["held_out_loss"] = run.loss;
      entry["held_out_accuracy"] = run.accuracy;
    }
    entry["epochs"] = run.epochs;
    json["runs"].push_back(std::move(entry));
  }
  return PrintedJson(json, 2);
}

void WriteSweep(const std::vector<SweptRun>& runs, const std::string& title, const std::string& subtitle,
                const std::string& configuration, const fs::path& file) {
  HtmlReport page(title, subtitle);
  if (!runs.empty() && runs[0].state == SweptRun::State::kFinished) {
    std::string values;
    for (const auto& [key, value] : runs[0].values)
      values += fmt::format("{}{} = {}", values.empty() ? "" : ", ", key, value);
    page.AddFigures({{"Best run", fmt::format("{}", runs[0].number), values},
                     {"Held-out loss", fmt::format("{:.4f}", runs[0].loss), "nats per frame"},
                     {"Frame accuracy", fmt::format("{:.2f} %", 100 * runs[0].accuracy), "held-out frames"}});
  }
  Table table{.title = "Runs", .header = Header(runs)};
  table.numeric.assign(table.header.size(), true);
  table.numeric.back() = false;
  for (const SweptRun& run : runs) table.rows.push_back(Cells(run));
  page.AddTable(table, true);
  page.AddLineChart(CurvesOfBest(runs));
  for (size_t option = 0; !runs.empty() && option < runs[0].values.size(); ++option) {
    if (const auto chart = LossBy(option, runs)) page.AddLineChart(*chart);
  }
  page.AddSection("What was run");
  page.AddText("Configuration", configuration);
  WriteFileAtomically(file, page.Render());
}

}  // namespace antiphon::report
