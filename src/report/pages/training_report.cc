#include "report/pages/training_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "base/file.h"
#include "report/confusion.h"
#include "report/metrics.h"
#include "report/pages/run_overview.h"
#include "report/progress.h"
#include "report/rank_time_keys.h"

namespace antiphon::report {
namespace {

namespace fs = std::filesystem;

// Records by kind. After falling back, the steps in between were recorded but undone: only those before the fall-back's
// target count.
struct RunRecords {
  std::vector<MetricsRecord> steps, epochs, events;
  MetricsRecord start, finish, last_epoch;
  explicit RunRecords(const std::vector<MetricsRecord>& records) {
    for (const MetricsRecord& record : records) {
      if (record.kind() == "step") steps.push_back(record);
      if (record.kind() == "epoch") epochs.push_back(last_epoch = record);
      if (record.kind() == "event") TakeEvent(record);
      if (record.kind() == "start") start = record;
      if (record.kind() == "finish") finish = record;
    }
  }
  void TakeEvent(const MetricsRecord& record) {
    events.push_back(record);
    if (record.Text("what") != "fallback") return;
    const double back_to = record.Number("step").value_or(0);
    std::erase_if(steps, [&](const MetricsRecord& step) { return step.Number("step").value_or(0) > back_to; });
  }
};

// x of a step record in epochs: records carry the overall step, epochs the step at which they ended.
double StepsPerEpoch(const RunRecords& run) {
  if (run.epochs.empty()) return 0;
  return run.epochs.front().Number("step").value_or(0);
}

Series EpochSeries(const RunRecords& run, const char* name, const char* key, const char* start_key, double factor) {
  Series series;
  series.name = name;
  series.markers = run.epochs.size() <= 40;
  if (start_key != nullptr && run.start.Has(start_key))
    series.points.emplace_back(0, factor * *run.start.Number(start_key));
  for (const MetricsRecord& epoch : run.epochs) {
    if (const auto value = epoch.Number(key)) series.points.emplace_back(*epoch.Number("epoch"), factor * *value);
  }
  return series;
}

Series StepSeries(const RunRecords& run, const char* name, const char* key, double factor) {
  Series series;
  series.name = name;
  const double per_epoch = StepsPerEpoch(run);
  for (const MetricsRecord& step : run.steps) {
    const auto value = step.Number(key);
    if (value) series.points.emplace_back(*step.Number("step") / (per_epoch > 0 ? per_epoch : 1), factor * *value);
  }
  return series;
}

// A running mean that is easier to read than single minibatches, with the ends as they are.
Series Smoothed(Series series) {
  constexpr size_t kMost = 150;
  const size_t width = series.points.size() / kMost + 1;
  if (width < 2) return series;
  std::vector<std::pair<double, double>> smooth;
  for (size_t begin = 0; begin < series.points.size(); begin += width) {
    const size_t end = std::min(begin + width, series.points.size());
    double x = 0;
    double y = 0;
    for (size_t i = begin; i < end; ++i) {
      x += series.points[i].first;
      y += series.points[i].second;
    }
    smooth.emplace_back(x / static_cast<double>(end - begin), y / static_cast<double>(end - begin));
  }
  series.points = std::move(smooth);
  return series;
}

std::string Percent(const MetricsRecord& record, const char* key) {
  const auto value = record.Number(key);
  return value ? fmt::format("{:.2f} %", 100 * *value) : "–";
}

void AddFigures(report::HtmlReport& page, const RunRecords& run) {
  const MetricsRecord& last = run.finish.Has("epochs") ? run.finish : run.last_epoch;
  const bool finished = run.finish.Has("epochs");
  std::vector<report::Figure> figures;
  figures.push_back({"Frame accuracy", Percent(last, "held_out_accuracy"), "held-out frames"});
  figures.push_back(
      {"Held-out loss", fmt::format("{:.4f}", last.Number("held_out_loss").value_or(NAN)), "nats per frame"});
  if (finished && run.finish.Number("phone_accuracy").value_or(0) > 0) {
    figures.push_back({"Phone accuracy", Percent(run.finish, "phone_accuracy"), "frames whose phone is right"});
  }
  figures.push_back({"Epochs", fmt::format("{}", run.epochs.size()), finished ? "finished" : "still running"});
  figures.push_back(
      {"Speed", report::FormatCount(last.Number("frames_per_second").value_or(0)), "frames per second of steps"});
  if (finished) {
    figures.push_back({"Time", report::FormatDuration(run.finish.Number("seconds").value_or(0)), "training in all"});
    figures.push_back({"Arithmetic", fmt::format("{:.1f} %", 100 * run.finish.Number("arithmetic_share").value_or(0)),
                       "of the steps' time"});
  }
  if (const double lost = run.finish.Number("lost_workers").value_or(0); lost > 0) {
    figures.push_back({"Workers lost", fmt::format("{}", lost),
                       fmt::format("{} minibatches of theirs went to the others",
                                   run.finish.Number("minibatches_given_back").value_or(0))});
  }
  if (const auto parameters = run.start.Number("parameters")) {
    figures.push_back({"Parameters", report::FormatCount(*parameters), "trainable"});
  }
  page.AddFigures(figures);
}

void AddCurves(report::HtmlReport& page, const RunRecords& run) {
  const std::string x_label = StepsPerEpoch(run) > 0 ? "epoch" : "step";
  report::LineChart loss{.title = "Loss", .x_label = x_label, .y_label = "nats per frame"};
  loss.series = {Smoothed(StepSeries(run, "training, as it went", "train_loss", 1)),
                 EpochSeries(run, "held-out", "held_out_loss", "held_out_loss", 1)};
  page.AddLineChart(loss);
  report::LineChart accuracy{.title = "Frame accuracy", .x_label = x_label, .y_label = "%"};
  accuracy.series = {Smoothed(StepSeries(run, "training, as it went", "train_accuracy", 100)),
                     EpochSeries(run, "held-out", "held_out_accuracy", "held_out_accuracy", 100)};
  const report::Series side = StepSeries(run, "classifier, as it went", "side_accuracy", 100);
  page.AddLineChart(accuracy);
  if (!side.points.empty()) {
    std::string note = "If it is adversarial, this must come down to what a guess gives.";
    if (const auto probe = run.finish.Number("side_probe_accuracy")) {
      note += fmt::format(" In the end a fresh classifier is right in {:.1f} % of frames; a guess in {:.1f} %.",
                          100 * *probe, 100 / run.finish.Number("side_probe_kinds").value_or(1));
    }
    page.AddLineChart({.title = "Accuracy of the side task",
                       .x_label = x_label,
                       .y_label = "%",
                       .series = {Smoothed(side)},
                       .note = note});
  }
  report::LineChart rate{.title = "Learning rate", .x_label = x_label, .y_label = "per frame-averaged gradient"};
  rate.series = {StepSeries(run, "learning rate", "learning_rate", 1)};
  rate.log_y = true;
  page.AddLineChart(rate);
  report::LineChart speed{.title = "Speed", .x_label = x_label, .y_label = "frames per second"};
  speed.series = {Smoothed(StepSeries(run, "frames per second", "frames_per_second", 1))};
  page.AddLineChart(speed);
}

void AddShares(report::HtmlReport& page, const RunRecords& run) {
  static constexpr const char* kKeys[] = {"arithmetic_seconds", "data_seconds", "communication_seconds",
                                          "other_seconds"};
  report::ShareBars bars;
  bars.title = "Where the time went";
  bars.parts = {"arithmetic", "waiting for data", "waiting for other workers", "evaluation, saving, reporting"};
  bars.unit = "s";
  bars.note =
      "Steps are the first three; data are read, spliced and shuffled by a thread of their own behind the arithmetic.";
  std::vector<double> before(4, 0.0);
  const size_t stride = run.epochs.size() / 12 + 1;
  for (size_t i = 0; i < run.epochs.size(); ++i) {
    if ((i + 1) % stride != 0 && i + 1 != run.epochs.size()) continue;
    std::vector<double> values;
    for (size_t k = 0; k < 4; ++k) {
      const double now = run.epochs[i].Number(kKeys[k]).value_or(0);
      values.push_back(std::max(0.0, now - before[k]));
      before[k] = now;
    }
    bars.rows.push_back({stride == 1 ? fmt::format("epoch {}", i + 1) : fmt::format("to epoch {}", i + 1), values});
  }
  page.AddShareBars(bars, true);
}

// Sums over the epochs in which as many workers as in the end took part; empty if there was one alone.
std::vector<double> SumOfRanks(const RunRecords& run, const std::string& key) {
  std::vector<double> sums;
  for (const MetricsRecord& epoch : run.epochs) {
    const std::vector<double> values = epoch.List(key);
    if (values.size() != sums.size()) sums.assign(values.size(), 0.0);
    std::transform(values.begin(), values.end(), sums.begin(), sums.begin(), std::plus<>());
  }
  return sums;
}

void AddRanks(report::HtmlReport& page, const RunRecords& run) {
  report::ShareBars bars;
  bars.title = "Where each worker's time went";
  bars.parts = {"arithmetic", "waiting for others", "exchange", "waiting for data", "evaluation, saving, reporting"};
  bars.unit = "s";
  for (const char* time : report::kRankTimes) {
    const std::vector<double> seconds = SumOfRanks(run, report::RankTimeKey(time));
    bars.rows.resize(seconds.size());
    for (size_t r = 0; r < seconds.size(); ++r) bars.rows[r].values.push_back(seconds[r]);
  }
  if (bars.rows.empty()) return;
  const std::vector<double> machines = run.last_epoch.List("rank_machines");
  for (size_t r = 0; r < bars.rows.size(); ++r) {
    bars.rows[r].name = r < machines.size() && machines.back() > 0
                            ? fmt::format("worker {}, machine {}", r, static_cast<int>(machines[r]))
                            : fmt::format("worker {}", r);
  }
  bars.note = LongestWait(run.last_epoch);
  page.AddShareBars(bars, true);
}

void AddEpochTable(report::HtmlReport& page, const RunRecords& run) {
  report::Table table;
  table.title = "Epochs";
  table.header = {"epoch", "rate", "train loss", "train acc.", "held-out loss", "held-out acc."};
  table.numeric = std::vector<bool>(table.header.size(), true);
  for (const MetricsRecord& epoch : run.epochs) {
    table.rows.push_back(
        {fmt::format("{}", static_cast<int>(*epoch.Number("epoch"))),
         fmt::format("{:.4g}", epoch.Number("learning_rate").value_or(NAN)),
         fmt::format("{:.4f}", epoch.Number("train_loss").value_or(NAN)), Percent(epoch, "train_accuracy"),
         fmt::format("{:.4f}", epoch.Number("held_out_loss").value_or(NAN)), Percent(epoch, "held_out_accuracy")});
  }
  // Half the page would cut its last column.
  page.AddTable(table, true);
}

void AddConfusion(report::HtmlReport& page, const fs::path& file) {
  const Confusion confusion = Confusion::Load(file);
  report::HeatMap map;
  map.title = "Confusion of phones";
  map.row_label = "aligned";
  map.column_label = "largest output";
  map.note = fmt::format(
      "Held-out frames; each row adds up to 1, strength grows with the square root of the share. {:.1f} % of the "
      "frames have the right phone.",
      100 * confusion.accuracy());
  // Phones that never occur would be empty rows.
  std::vector<size_t> seen;
  for (size_t r = 0; r < confusion.names.size(); ++r) {
    double frames = 0;
    for (size_t c = 0; c < confusion.names.size(); ++c) frames += confusion.counts[r][c] + confusion.counts[c][r];
    if (frames > 0) seen.push_back(r);
  }
  for (const size_t r : seen) {
    map.names.push_back(confusion.names[r]);
    map.counts.emplace_back();
    for (const size_t c : seen) map.counts.back().push_back(confusion.counts[r][c]);
  }
  page.AddHeatMap(map);
}

}  // namespace

void AddTrainingSections(report::HtmlReport& page, const fs::path& run_folder) {
  const RunRecords run(report::ReadMetrics(run_folder / "metrics.jsonl"));
  AddFigures(page, run);
  for (const MetricsRecord& event : run.events) page.AddWarning(event.Text("message"));
  page.AddSection("How it learned");
  AddCurves(page, run);
  if (!run.epochs.empty()) {
    AddEpochTable(page, run);
    AddShares(page, run);
    AddRanks(page, run);
  }
  if (fs::exists(run_folder / "confusion.json")) {
    page.AddSection("What it takes for what");
    AddConfusion(page, run_folder / "confusion.json");
  }
  page.AddSection("What was run");
  if (fs::exists(run_folder / "config.toml"))
    page.AddText("Effective configuration", ReadFile(run_folder / "config.toml"));
  if (fs::exists(run_folder / "versions.txt"))
    page.AddText("Program and libraries", ReadFile(run_folder / "versions.txt"));
}

void WriteTrainingReport(const fs::path& run_folder) {
  report::HtmlReport page("Training of an acoustic model", run_folder.string());
  AddTrainingSections(page, run_folder);
  WriteFileAtomically(run_folder / "report.html", page.Render());
}

}  // namespace antiphon::report
