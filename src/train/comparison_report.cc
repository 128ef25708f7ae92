#include "train/comparison_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "report/metrics.h"
#include "report/text_table.h"

namespace antiphon::train {
namespace {

using report::MetricsRecord;

std::string Label(const ComparedRow& row) {
  return row.workers == 1 ? row.method : fmt::format("{} × {}", row.method, row.workers);
}

// What one run adds to the figures of its row.
struct RunFigures {
  std::vector<EpochPoint> curve;
  MetricsRecord last, finish;
};

RunFigures ReadRun(const ComparedRun& run) {
  RunFigures figures;
  for (const MetricsRecord& record : report::ReadMetrics(run.folder / "metrics.jsonl")) {
    if (record.kind() == "finish") figures.finish = record;
    if (record.kind() != "epoch") continue;
    figures.last = record;
    EpochPoint point;
    for (const char* key : {"arithmetic_seconds", "data_seconds", "communication_seconds", "other_seconds"}) {
      point.seconds += record.Number(key).value_or(0);
    }
    if (const double time = record.Number("virtual_seconds").value_or(0); time > 0) point.seconds = time;
    point.frames = record.Number("frames").value_or(0);
    point.held_out_loss = record.Number("held_out_loss").value_or(NAN);
    point.held_out_accuracy = record.Number("held_out_accuracy").value_or(NAN);
    figures.curve.push_back(point);
  }
  if (figures.curve.empty()) Throw<InputError>("'{}' holds no finished epoch", run.folder.string());
  return figures;
}

double BestLoss(const std::vector<EpochPoint>& curve) {
  double best = INFINITY;
  for (const EpochPoint& point : curve) best = std::min(best, point.held_out_loss);
  return best;
}

std::optional<double> SecondsToLoss(const std::vector<EpochPoint>& curve, double loss) {
  for (size_t i = 0; i < curve.size(); ++i) {
    if (!(curve[i].held_out_loss <= loss)) continue;
    if (i == 0) return curve[0].seconds;
    const EpochPoint& a = curve[i - 1];
    const double drop = a.held_out_loss - curve[i].held_out_loss;
    const double share = drop > 0 ? (a.held_out_loss - loss) / drop : 1.0;
    return a.seconds + share * (curve[i].seconds - a.seconds);
  }
  return std::nullopt;
}

ComparedRow ReadRow(const std::vector<ComparedRun>& runs) {
  ComparedRow row;
  row.method = runs.front().method;
  row.workers = runs.front().workers;
  std::vector<double> accuracy, loss, seconds, speed, bytes, staleness;
  for (const ComparedRun& run : runs) {
    if (!run.failure.empty()) {
      row.failures.push_back(run.failure);
      continue;
    }
    const RunFigures figures = ReadRun(run);
    const MetricsRecord& end = figures.finish.Has("held_out_loss") ? figures.finish : figures.last;
    accuracy.push_back(end.Number("held_out_accuracy").value_or(NAN));
    loss.push_back(end.Number("held_out_loss").value_or(NAN));
    seconds.push_back(figures.curve.back().seconds);
    speed.push_back(figures.last.Number("frames_per_second").value_or(0));
    bytes.push_back(figures.last.Number("bytes_sent").value_or(0) / 1e9);
    if (const auto mean = figures.last.Number("staleness")) staleness.push_back(*mean);
    row.arithmetic_seconds += figures.last.Number("arithmetic_seconds").value_or(0);
    row.data_seconds += figures.last.Number("data_seconds").value_or(0);
    row.communication_seconds += figures.last.Number("communication_seconds").value_or(0);
    row.other_seconds += figures.last.Number("other_seconds").value_or(0);
    row.curves.push_back(figures.curve);
  }
  row.accuracy = Summarise(accuracy);
  row.loss = Summarise(loss);
  row.seconds = Summarise(seconds);
  row.frames_per_second = Summarise(speed);
  row.gigabytes_sent = Summarise(bytes);
  row.staleness = Summarise(staleness);
  return row;
}

// Mean of the runs' curves, epoch by epoch.
report::Series MeanCurve(const ComparedRow& row, bool against_time) {
  report::Series series;
  series.name = Label(row);
  series.markers = true;
  size_t epochs = row.curves.empty() ? 0 : row.curves[0].size();
  for (const auto& curve : row.curves) epochs = std::min(epochs, curve.size());
  for (size_t e = 0; e < epochs; ++e) {
    double x = 0, y = 0;
    for (const auto& curve : row.curves) {
      x += against_time ? curve[e].seconds : curve[e].frames / 1e6;
      y += 100 * curve[e].held_out_accuracy;
    }
    const auto n = static_cast<double>(row.curves.size());
    series.points.emplace_back(x / n, y / n);
  }
  return series;
}

std::string Text(const MeanAndSpread& value, double factor, int digits) {
  if (value.count == 0) return "–";
  if (value.count == 1) return fmt::format("{:.{}f}", factor * value.mean, digits);
  return fmt::format("{:.{}f} ± {:.{}f}", factor * value.mean, digits, factor * value.spread, digits);
}

const std::vector<std::string>& Header() {
  static const std::vector<std::string> header = {"method",  "workers",    "runs",           "accuracy %",
                                                  "loss",    "seconds",    "to common loss", "frames/s",
                                                  "GB sent", "exchange %", "staleness"};
  return header;
}

std::vector<std::string> Cells(const ComparedRow& row) {
  const double steps = row.arithmetic_seconds + row.data_seconds + row.communication_seconds;
  std::string runs = fmt::format("{}", row.curves.size());
  if (!row.failures.empty()) runs += fmt::format(" ({} failed)", row.failures.size());
  return {row.method,
          fmt::format("{}", row.workers),
          runs,
          Text(row.accuracy, 100, 2),
          Text(row.loss, 1, 4),
          Text(row.seconds, 1, 1),
          Text(row.seconds_to_common_loss, 1, 1),
          Text(row.frames_per_second, 1, 0),
          Text(row.gigabytes_sent, 1, 3),
          steps > 0 ? fmt::format("{:.1f}", 100 * row.communication_seconds / steps) : "–",
          Text(row.staleness, 1, 2)};
}

}  // namespace

MeanAndSpread Summarise(const std::vector<double>& values) {
  MeanAndSpread result;
  result.count = static_cast<int>(values.size());
  if (values.empty()) return result;
  for (const double v : values) result.mean += v / static_cast<double>(values.size());
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double v : values) squares += (v - result.mean) * (v - result.mean);
  result.spread = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return result;
}

Comparison Compare(const std::vector<ComparedRun>& runs) {
  Comparison comparison;
  std::vector<std::vector<ComparedRun>> groups;
  for (const ComparedRun& run : runs) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.front().method == run.method && group.front().workers == run.workers;
    });
    if (same == groups.end()) same = groups.insert(groups.end(), std::vector<ComparedRun>{});
    same->push_back(run);
  }
  comparison.common_loss = -INFINITY;
  for (const auto& group : groups) {
    comparison.rows.push_back(ReadRow(group));
    for (const auto& curve : comparison.rows.back().curves) {
      comparison.common_loss = std::max(comparison.common_loss, BestLoss(curve));
    }
  }
  for (ComparedRow& row : comparison.rows) {
    std::vector<double> seconds;
    for (const auto& curve : row.curves) {
      if (const auto reached = SecondsToLoss(curve, comparison.common_loss)) seconds.push_back(*reached);
    }
    row.seconds_to_common_loss = Summarise(seconds);
  }
  return comparison;
}

std::string TextTable(const Comparison& comparison) {
  std::vector<std::vector<std::string>> lines = {Header()};
  for (const ComparedRow& row : comparison.rows) lines.push_back(Cells(row));
  std::string text;
  for (const std::string& line : report::TextTable(lines)) text += line + '\n';
  return text;
}

std::string ToJson(const Comparison& comparison) {
  const auto value = [](const MeanAndSpread& m) {
    return m.count == 0 ? nlohmann::json() : nlohmann::json{{"mean", m.mean}, {"spread", m.spread}, {"runs", m.count}};
  };
  nlohmann::json rows = nlohmann::json::array();
  for (const ComparedRow& row : comparison.rows) {
    rows.push_back({{"method", row.method},
                    {"workers", row.workers},
                    {"failures", row.failures},
                    {"held_out_accuracy", value(row.accuracy)},
                    {"held_out_loss", value(row.loss)},
                    {"seconds", value(row.seconds)},
                    {"seconds_to_common_loss", value(row.seconds_to_common_loss)},
                    {"frames_per_second", value(row.frames_per_second)},
                    {"gigabytes_sent", value(row.gigabytes_sent)},
                    {"staleness", value(row.staleness)}});
  }
  return nlohmann::json{{"common_loss", comparison.common_loss}, {"rows", rows}}.dump();
}

void WriteComparison(const Comparison& comparison, const std::string& subtitle, const std::string& configuration,
                     const std::filesystem::path& file) {
  report::HtmlReport page("Ways to train one network", subtitle);
  for (const ComparedRow& row : comparison.rows) {
    for (const std::string& failure : row.failures) page.AddWarning(Label(row) + ": " + failure);
  }
  report::LineChart time{.title = "Accuracy against time", .x_label = "seconds", .y_label = "% of held-out frames"};
  report::LineChart frames{
      .title = "Accuracy against data", .x_label = "million frames", .y_label = "% of held-out frames"};
  report::ShareBars shares{.title = "Where the time went",
                           .parts = {"arithmetic", "waiting for data", "exchange", "evaluation, saving, reporting"},
                           .unit = "s"};
  for (const ComparedRow& row : comparison.rows) {
    if (row.curves.empty()) continue;
    time.series.push_back(MeanCurve(row, true));
    frames.series.push_back(MeanCurve(row, false));
    shares.rows.push_back(
        {Label(row), {row.arithmetic_seconds, row.data_seconds, row.communication_seconds, row.other_seconds}});
  }
  shares.note = "Of worker 0, all runs of a row together. Exchange: encoding, sending and waiting for others.";
  page.AddLineChart(time);
  page.AddLineChart(frames);
  report::Table table;
  table.title = "Figures";
  table.header = Header();
  table.numeric = std::vector<bool>(table.header.size(), true);
  table.numeric[0] = false;
  for (const ComparedRow& row : comparison.rows) table.rows.push_back(Cells(row));
  table.note = fmt::format(
      "Means and standard deviations over runs that differ in their seed alone. The common loss, {:.4f} nats per "
      "held-out "
      "frame, is what every run reaches.",
      comparison.common_loss);
  page.AddTable(table, true);
  page.AddShareBars(shares);
  page.AddText("Configuration", configuration);
  WriteFileAtomically(file, page.Render());
}

}  // namespace antiphon::train
