#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "report/html.h"
#include "report/pages/comparison_report.h"
#include "report/text_table.h"

namespace antiphon::report {
namespace {

constexpr size_t kMostLettersInHalf = 60;  // of a table's line, of the page's width

using Abscissa = double (*)(const EpochPoint&);

double Seconds(const EpochPoint& point) { return point.seconds; }
double MillionFrames(const EpochPoint& point) { return point.frames / 1e6; }
double Gigabytes(const EpochPoint& point) { return point.gigabytes; }

// Mean of the runs' curves, epoch by epoch.
report::Series MeanCurve(const ComparedRow& row, Abscissa abscissa) {
  report::Series series;
  series.name = Label(row);
  series.markers = true;
  size_t epochs = row.runs.empty() ? 0 : row.runs[0].curve.size();
  for (const RunFigures& run : row.runs) epochs = std::min(epochs, run.curve.size());
  for (size_t e = 0; e < epochs; ++e) {
    double x = 0, y = 0;
    for (const RunFigures& run : row.runs) {
      x += abscissa(run.curve[e]);
      y += 100 * run.curve[e].held_out_accuracy;
    }
    const auto n = static_cast<double>(row.runs.size());
    series.points.emplace_back(x / n, y / n);
  }
  return series;
}

report::LineChart Chart(const std::string& title, const std::string& x_label, const ComparedRow& first,
                        const std::vector<const ComparedRow*>& rows, Abscissa abscissa) {
  report::LineChart chart{.title = title, .x_label = x_label, .y_label = "% of held-out frames"};
  const auto add = [&](const ComparedRow& row, bool dashed) {
    report::Series series = MeanCurve(row, abscissa);
    if (series.points.empty()) return;
    series.dashed = dashed;
    chart.series.push_back(series);
  };
  add(first, true);
  for (const ComparedRow* row : rows) add(*row, false);
  return chart;
}

report::ShareBars TimeShares(const std::vector<const ComparedRow*>& rows) {
  report::ShareBars shares{.title = "Where the time went",
                           .parts = {"arithmetic", "waiting for data", "exchange", "evaluation, saving, reporting"},
                           .unit = "s"};
  for (const ComparedRow* row : rows) {
    std::vector<double> parts(4, 0.0);
    for (const RunFigures& run : row->runs) {
      parts[0] += run.arithmetic_seconds;
      parts[1] += run.data_seconds;
      parts[2] += run.communication_seconds;
      parts[3] += run.other_seconds;
    }
    shares.rows.push_back({Label(*row), parts});
  }
  shares.note = "Of worker 0, all runs of a row together. Exchange: encoding, sending and waiting for others.";
  return shares;
}

// What became of one method, beside the first row.
void AddMethod(report::HtmlReport& page, const ComparedRow& first, const std::vector<const ComparedRow*>& rows) {
  page.AddSection(rows.front()->method);
  page.AddLineChart(Chart("Accuracy against time", "seconds", first, rows, Seconds));
  page.AddLineChart(Chart("Accuracy against data", "million frames", first, rows, MillionFrames));
  page.AddLineChart(Chart("Accuracy against bytes sent", "GB of all workers", first, rows, Gigabytes));
  page.AddShareBars(TimeShares(rows));
}

report::Table AsTable(const std::string& title, std::vector<std::vector<std::string>> lines) {
  report::Table table{.title = title, .header = lines.front()};
  table.rows.assign(lines.begin() + 1, lines.end());
  table.numeric.assign(table.header.size(), true);
  table.numeric[0] = false;
  return table;
}

}  // namespace

void WriteComparison(const Comparison& comparison, const std::string& title, const std::string& subtitle,
                     const std::string& configuration, const std::filesystem::path& file) {
  report::HtmlReport page(title, subtitle);
  std::set<std::string> told;
  for (const ComparedRow& row : comparison.rows) {
    for (const std::string& failure : row.failures) {
      const std::string warning = Label(row) + ": " + failure;
      if (told.insert(warning).second) page.AddWarning(warning);
    }
  }
  page.AddParagraph(kComparisonNote);
  const std::vector<Overview> overviews = Overviews(comparison);
  const bool wide = std::any_of(overviews.begin(), overviews.end(), [](const Overview& overview) {
    return report::TextTable(overview.lines)[0].size() > kMostLettersInHalf;
  });
  for (const Overview& overview : overviews) page.AddTable(AsTable(overview.title, overview.lines), wide);

  std::vector<std::vector<std::string>> lines = {ComparisonHeader(comparison)};
  for (const ComparedRow& row : comparison.rows) lines.push_back(ComparisonCells(row, comparison));
  report::Table all = AsTable("All figures", lines);
  all.note = fmt::format("To loss: seconds to the loss that every run reaches, {:.4f} nats per held-out frame.",
                         comparison.common_loss);
  page.AddTable(all, true);

  const ComparedRow& first = comparison.rows.front();
  std::set<std::string> shown;
  for (const ComparedRow& row : comparison.rows) {
    if (&row == &first || !shown.insert(row.method).second) continue;
    std::vector<const ComparedRow*> rows;
    for (const ComparedRow& other : comparison.rows) {
      if (&other != &first && other.method == row.method && !other.runs.empty()) rows.push_back(&other);
    }
    if (!rows.empty()) AddMethod(page, first, rows);
  }
  page.AddText("Configuration", configuration);
  WriteFileAtomically(file, page.Render());
}

}  // namespace antiphon::report
