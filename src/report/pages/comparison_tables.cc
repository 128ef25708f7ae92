#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "report/pages/comparison_report.h"
#include "report/text_table.h"

namespace antiphon::report {
namespace {

constexpr const char* kNone = "–";

std::string Text(const MeanAndSpread& value, double factor, int digits, bool sign = false) {
  if (value.count == 0) return kNone;
  const std::string mean =
      sign ? fmt::format("{:+.{}f}", factor * value.mean, digits) : fmt::format("{:.{}f}", factor * value.mean, digits);
  return value.count == 1 ? mean : fmt::format("{} ± {:.{}f}", mean, factor * value.spread, digits);
}

bool AnyOf(const Comparison& comparison, MeanAndSpread ComparedRow::*figure) {
  return std::any_of(comparison.rows.begin(), comparison.rows.end(),
                     [&](const ComparedRow& row) { return (row.*figure).count > 0; });
}

std::string Accuracy(const ComparedRow& row) { return Text(row.accuracy, 100, 2); }
std::string Difference(const ComparedRow& row) { return Text(row.accuracy_difference, 100, 2, true); }
std::string WordErrors(const ComparedRow& row) { return Text(row.word_error_rate, 100, 2); }
std::string GigabytesText(const ComparedRow& row) { return Text(row.gigabytes_sent, 1, 3); }
std::string Staleness(const ComparedRow& row) { return Text(row.staleness, 1, 2); }
std::string Exchange(const ComparedRow& row) {
  return row.runs.empty() ? kNone : fmt::format("{:.1f}", 100 * row.exchange_share);
}

Overview OverviewOf(const Comparison& comparison, const std::string& title,
                    const std::function<std::string(const ComparedRow&)>& cell) {
  std::set<int> workers;
  std::vector<std::string> methods;
  for (const ComparedRow& row : comparison.rows) {
    workers.insert(row.workers);
    if (std::find(methods.begin(), methods.end(), row.method) == methods.end()) methods.push_back(row.method);
  }
  Overview overview{.title = title, .lines = {{"method"}}};
  for (const int n : workers) overview.lines[0].push_back(fmt::format("× {}", n));
  for (const std::string& method : methods) {
    std::vector<std::string> line = {method};
    for (const int n : workers) {
      const auto found = std::find_if(comparison.rows.begin(), comparison.rows.end(),
                                      [&](const ComparedRow& row) { return row.method == method && row.workers == n; });
      const bool failed = found != comparison.rows.end() && found->runs.empty() && !found->failures.empty();
      line.push_back(found == comparison.rows.end() ? "" : failed ? "not possible" : cell(*found));
    }
    overview.lines.push_back(line);
  }
  return overview;
}

std::string MarkdownTable(const std::vector<std::vector<std::string>>& lines) {
  std::string text;
  for (size_t i = 0; i < lines.size(); ++i) {
    text += fmt::format("| {} |\n", fmt::join(lines[i], " | "));
    if (i > 0) continue;
    for (size_t k = 0; k < lines[0].size(); ++k) text += "|---";
    text += "|\n";
  }
  return text;
}

std::vector<std::vector<std::string>> AllLines(const Comparison& comparison) {
  std::vector<std::vector<std::string>> lines = {ComparisonHeader(comparison)};
  for (const ComparedRow& row : comparison.rows) lines.push_back(ComparisonCells(row, comparison));
  return lines;
}

nlohmann::json TableJson(const MeanAndSpread& m) {
  if (m.count == 0) return {};
  return {{"mean", m.mean}, {"spread", m.spread}, {"runs", m.count}};
}

nlohmann::json TableJson(const RunFigures& run) {
  nlohmann::json json = {{"seed", run.seed},
                         {"held_out_accuracy", run.accuracy},
                         {"held_out_loss", run.loss},
                         {"seconds", run.curve.back().seconds},
                         {"frames", run.curve.back().frames},
                         {"gigabytes_sent", run.curve.back().gigabytes}};
  if (run.staleness) json["staleness"] = *run.staleness;
  if (run.word_error_rate) json["word_error_rate"] = *run.word_error_rate;
  return json;
}

}  // namespace

const char* const kComparisonNote =
    "Means and standard deviations over runs that differ in their seed alone. Differences are from the first row's run "
    "of the same seed, as each seed holds other utterances out.";

std::vector<std::string> ComparisonHeader(const Comparison& comparison) {
  std::vector<std::string> header = {"method", "workers", "runs", "accuracy %"};
  if (AnyOf(comparison, &ComparedRow::accuracy_difference)) header.push_back("difference");
  if (AnyOf(comparison, &ComparedRow::word_error_rate)) header.push_back("WER %");
  for (const char* name : {"loss", "seconds", "to loss", "frames/s", "GB sent", "exchange %", "staleness"}) {
    header.push_back(name);
  }
  return header;
}

std::vector<std::string> ComparisonCells(const ComparedRow& row, const Comparison& comparison) {
  std::string runs = fmt::format("{}", row.runs.size());
  if (!row.failures.empty()) runs += fmt::format(" ({} failed)", row.failures.size());
  std::vector<std::string> cells = {row.method, fmt::format("{}", row.workers), runs, Accuracy(row)};
  if (AnyOf(comparison, &ComparedRow::accuracy_difference)) cells.push_back(Difference(row));
  if (AnyOf(comparison, &ComparedRow::word_error_rate)) cells.push_back(WordErrors(row));
  for (const std::string& cell :
       {Text(row.loss, 1, 4), Text(row.seconds, 1, 1), Text(row.seconds_to_common_loss, 1, 1),
        Text(row.frames_per_second, 1, 0), GigabytesText(row), Exchange(row), Staleness(row)}) {
    cells.push_back(cell);
  }
  return cells;
}

std::vector<Overview> Overviews(const Comparison& comparison) {
  std::vector<Overview> overviews = {OverviewOf(comparison, "Held-out frame accuracy, %", Accuracy)};
  if (AnyOf(comparison, &ComparedRow::accuracy_difference)) {
    overviews.push_back(
        OverviewOf(comparison, fmt::format("Frame accuracy minus that of {}, points", Label(comparison.rows.front())),
                   Difference));
  }
  if (AnyOf(comparison, &ComparedRow::word_error_rate)) {
    overviews.push_back(OverviewOf(comparison, "Word error rate, %", WordErrors));
  }
  overviews.push_back(OverviewOf(comparison, "GB sent by all workers", GigabytesText));
  overviews.push_back(OverviewOf(comparison, "Exchange and waiting, % of the steps' time", Exchange));
  if (AnyOf(comparison, &ComparedRow::staleness)) {
    overviews.push_back(OverviewOf(comparison, "Mean staleness, updates that a gradient did not know", Staleness));
  }
  return overviews;
}

std::string TextTable(const Comparison& comparison) {
  std::string text;
  for (const std::string& line : report::TextTable(AllLines(comparison))) text += line + '\n';
  return text;
}

std::string MarkdownTables(const Comparison& comparison) {
  std::string text = std::string(kComparisonNote) + "\n";
  for (const Overview& overview : Overviews(comparison)) {
    text += fmt::format("\n{}:\n\n{}", overview.title, MarkdownTable(overview.lines));
  }
  text += "\nAll figures:\n\n" + MarkdownTable(AllLines(comparison));
  for (const ComparedRow& row : comparison.rows) {
    for (const std::string& failure : row.failures) text += fmt::format("\n{}: {}\n", Label(row), failure);
  }
  return text;
}

std::string ToJson(const Comparison& comparison) {
  nlohmann::json rows = nlohmann::json::array();
  for (const ComparedRow& row : comparison.rows) {
    nlohmann::json runs = nlohmann::json::array();
    for (const RunFigures& run : row.runs) runs.push_back(TableJson(run));
    rows.push_back({{"method", row.method},
                    {"workers", row.workers},
                    {"failures", row.failures},
                    {"held_out_accuracy", TableJson(row.accuracy)},
                    {"accuracy_difference", TableJson(row.accuracy_difference)},
                    {"held_out_loss", TableJson(row.loss)},
                    {"word_error_rate", TableJson(row.word_error_rate)},
                    {"seconds", TableJson(row.seconds)},
                    {"seconds_to_common_loss", TableJson(row.seconds_to_common_loss)},
                    {"frames_per_second", TableJson(row.frames_per_second)},
                    {"gigabytes_sent", TableJson(row.gigabytes_sent)},
                    {"exchange_share", row.exchange_share},
                    {"staleness", TableJson(row.staleness)},
                    {"runs", runs}});
  }
  return nlohmann::json{{"common_loss", comparison.common_loss}, {"rows", rows}}.dump();
}

}  // namespace antiphon::report
