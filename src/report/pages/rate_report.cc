#include "report/pages/rate_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "report/html.h"

namespace antiphon::report {

void WriteRatePage(const RatePage& page, const std::string& subtitle, const std::filesystem::path& file) {
  HtmlReport html("A learning rate to begin with", subtitle);
  const auto text = [](const std::optional<double>& rate, double factor) {
    return rate ? fmt::format("{:.3g}", factor * *rate) : std::string("–");
  };
  html.AddFigures({{"Learning rate", text(page.steepest, 1), "the loss falls fastest"},
                   {"A tenth of the lowest loss's", text(page.lowest, 0.1), "more careful, or bolder"},
                   {"Lowest loss at", text(page.lowest, 1), "as a first rate too high"}});
  if (!page.remark.empty()) html.AddWarning(page.remark);
  LineChart chart{.title = "Loss while the rate rises", .x_label = "learning rate", .y_label = "nats per frame"};
  chart.log_x = true;
  // The explosion would press the rest to the floor.
  std::vector<std::pair<double, double>> losses = page.losses;
  if (!losses.empty()) {
    const double most = 1.5 * losses.front().second;
    std::erase_if(losses, [most](const auto& point) { return point.second > most; });
  }
  chart.series = {{.name = "running mean", .points = page.smoothed},
                  {.name = "minibatches", .points = losses, .line = false}};
  if (page.steepest) {
    const auto at = std::lower_bound(page.smoothed.begin(), page.smoothed.end(), std::pair(*page.steepest, -1e300));
    if (at != page.smoothed.end()) chart.series.push_back({.name = "falls fastest", .points = {*at}, .markers = true});
  }
  html.AddLineChart(chart);
  html.AddText("Configuration", page.configuration);
  WriteFileAtomically(file, html.Render());
}

}  // namespace antiphon::report
