#include "simulation_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/html.h"

namespace antiphon::app {
namespace {

constexpr const char* kSimulated =
    "Every figure on this page is simulated: computed from a model of devices and links.";

std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

report::Table PageTable(std::string title, std::vector<std::vector<std::string>> rows) {
  report::Table table;
  table.title = std::move(title);
  table.header = std::move(rows.front());
  table.rows.assign(rows.begin() + 1, rows.end());
  table.numeric.assign(table.header.size(), true);
  table.numeric[0] = false;
  return table;
}

}  // namespace

std::vector<std::vector<std::string>> Rows(const std::vector<SimulatedRun>& runs) {
  std::vector<std::vector<std::string>> rows = {
      {"method", "workers", "frames/s", "speed-up", "efficiency", "computing", "bytes/frame", "staleness", "GB"}};
  for (const auto& [plan, r] : runs) {
    rows.push_back({plan.method, fmt::format("{}", plan.workers), fmt::format("{:.0f}", r.frames_per_second),
                    fmt::format("{:.2f}", r.speedup), Percent(r.speedup / plan.workers), Percent(r.compute_share),
                    fmt::format("{:.0f}", r.bytes_per_frame),
                    r.staleness > 0 ? fmt::format("{:.1f}", r.staleness) : std::string("–"),
                    fmt::format("{:.2f}", 1e-9 * r.memory_bytes)});
  }
  return rows;
}

std::vector<std::vector<std::string>> Rows(const plan::PublishedTable& table) {
  std::vector<std::vector<std::string>> rows = {{table.unit, "published", "simulated", "error", ""}};
  for (const plan::PublishedRow& row : table.rows) {
    rows.push_back({row.what, row.published > 0 ? fmt::format("{:.4g}", row.published) : std::string("–"),
                    fmt::format("{:.4g}", row.simulated),
                    row.fitted          ? std::string("fitted")
                    : row.published > 0 ? fmt::format("{:+.1f} %", 100 * row.error())
                                        : std::string("–"),
                    row.note});
  }
  return rows;
}

nlohmann::json ToJson(const SimulatedRun& run) {
  const plan::CostResult& r = run.result;
  return {{"method", run.plan.method},
          {"workers", run.plan.workers},
          {"simulated", true},
          {"frames_per_second", r.frames_per_second},
          {"serial_frames_per_second", r.serial_frames_per_second},
          {"speedup", r.speedup},
          {"compute_share", r.compute_share},
          {"bytes_per_frame", r.bytes_per_frame},
          {"staleness", r.staleness},
          {"memory_bytes", r.memory_bytes},
          {"ranks", r.ranks},
          {"split", r.split}};
}

nlohmann::json ToJson(const plan::PublishedTable& table) {
  nlohmann::json rows = nlohmann::json::array();
  for (const plan::PublishedRow& row : table.rows) {
    nlohmann::json json = {
        {"what", row.what}, {"simulated", row.simulated}, {"fitted", row.fitted}, {"note", row.note}};
    if (row.published > 0) {
      json["published"] = row.published;
      json["error"] = row.error();
    }
    rows.push_back(std::move(json));
  }
  return {{"title", table.title},         {"source", table.source}, {"unit", table.unit},
          {"constants", table.constants}, {"fitted", table.fitted}, {"rows", rows}};
}

nlohmann::json ToJson(const plan::Candidate& c) {
  nlohmann::json json = ToJson(SimulatedRun{c.plan, c.result});
  json["name"] = c.name;
  json["minibatch"] = c.plan.minibatch;
  json["sync_period"] = c.plan.sync_period;
  json["accumulate"] = c.plan.accumulate;
  json["codec"] = c.plan.codec;
  json["bits_per_value"] = plan::BitsPerValue(c.plan);
  json["servers"] = c.plan.servers;
  json["group"] = c.plan.group;
  json["passes_factor"] = c.passes;
  json["hours"] = c.hours;
  json["price"] = c.price;
  return json;
}

std::string SimulationPage(const std::vector<SimulatedRun>& runs, const std::string& network,
                           const std::string& cluster) {
  report::HtmlReport page("Simulated training speed", network);
  page.AddWarning(kSimulated);
  std::map<std::string, report::Series> speedups;
  std::map<std::string, report::Series> bytes;
  for (const auto& [plan, r] : runs) {
    for (auto* series : {&speedups[plan.method], &bytes[plan.method]}) {
      series->name = plan.method;
      series->markers = true;
    }
    speedups[plan.method].points.emplace_back(plan.workers, r.speedup);
    bytes[plan.method].points.emplace_back(plan.workers, r.bytes_per_frame);
  }
  report::LineChart speed{.title = "Speed-up over one device", .x_label = "workers"};
  report::LineChart sent{.title = "Bytes sent per frame", .x_label = "workers"};
  for (auto& [name, series] : speedups) speed.series.push_back(std::move(series));
  for (auto& [name, series] : bytes) sent.series.push_back(std::move(series));
  page.AddLineChart(speed);
  page.AddLineChart(sent);
  page.AddTable(PageTable("Runs", Rows(runs)), true);
  page.AddText("Cluster", cluster);
  return page.Render();
}

std::string PublishedPage(const std::vector<plan::PublishedTable>& tables) {
  report::HtmlReport page("Published scaling, simulated", "what papers measured beside what the cost model says");
  page.AddWarning(kSimulated);
  for (const plan::PublishedTable& table : tables) {
    page.AddSection(table.title);
    report::Table rows = PageTable(table.source, Rows(table));
    rows.numeric.back() = false;
    rows.note = "Fitted: " + table.fitted + ". Constants: " + fmt::format("{}.", fmt::join(table.constants, "; "));
    page.AddTable(rows, true);
  }
  return page.Render();
}

}  // namespace antiphon::app
