#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/html.h"

namespace antiphon::report::internal {
namespace {

constexpr double kWidth = 560;
constexpr double kHeight = 300;
constexpr double kLeft = 52;
constexpr double kRight = 546;
constexpr double kTop = 10;
constexpr double kBottom = 258;
constexpr size_t kMostPoints = 600;  // per curve; more are thinned, the eye cannot tell

struct Axis {
  double low = 0;
  double high = 1;
  std::vector<double> ticks;
  bool log = false;

  double Place(double value) const {  // 0 … 1
    if (log) return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
    return (value - low) / (high - low);
  }
};

bool Drawable(const std::pair<double, double>& point, bool log_x, bool log_y) {
  return std::isfinite(point.first) && std::isfinite(point.second) && (!log_x || point.first > 0) &&
         (!log_y || point.second > 0);
}

std::pair<double, double> Extent(const LineChart& chart, bool x) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const Series& series : chart.series) {
    for (const auto& point : series.points) {
      if (!Drawable(point, chart.log_x, chart.log_y)) continue;
      low = std::min(low, x ? point.first : point.second);
      high = std::max(high, x ? point.first : point.second);
    }
  }
  return low <= high ? std::pair(low, high) : std::pair((x ? chart.log_x : chart.log_y) ? 0.1 : 0.0, 1.0);
}

Axis LogAxis(std::pair<double, double> extent) {
  Axis axis;
  axis.log = true;
  // 1, 2, 5 of each decade while they are few, else the decades alone.
  const auto first = static_cast<int>(std::floor(std::log10(extent.first)));
  const auto last = static_cast<int>(std::ceil(std::log10(extent.second * (1 + 1e-9))));
  std::vector<double> marks;
  for (int decade = first; decade <= last; ++decade) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor == 1.0 || last - first <= 2) marks.push_back(factor * std::pow(10.0, decade));
    }
  }
  size_t begin = 0;
  while (begin + 2 < marks.size() && marks[begin + 1] <= extent.first) ++begin;
  size_t end = marks.size();
  while (end > begin + 2 && marks[end - 2] >= extent.second) --end;
  axis.ticks.assign(marks.begin() + static_cast<std::ptrdiff_t>(begin),
                    marks.begin() + static_cast<std::ptrdiff_t>(end));
  axis.low = axis.ticks.front();
  axis.high = axis.ticks.back();
  return axis;
}

Axis XAxis(std::pair<double, double> extent, bool log) {
  if (log) return LogAxis(extent);
  Axis axis{extent.first, extent.second, {}, false};
  if (axis.high <= axis.low) axis = {axis.low - 0.5, axis.high + 0.5, {}, false};
  for (const double tick : NiceTicks(axis.low, axis.high, 7)) {
    if (tick >= axis.low && tick <= axis.high) axis.ticks.push_back(tick);
  }
  return axis;
}

Axis YAxis(std::pair<double, double> extent, bool log) {
  if (log) return LogAxis(extent);
  Axis axis;
  if (extent.second <= extent.first) extent = {extent.first - 0.5, extent.second + 0.5};
  axis.ticks = NiceTicks(extent.first, extent.second, 5);
  axis.low = axis.ticks.front();
  axis.high = axis.ticks.back();
  return axis;
}

double PlaceX(const Axis& axis, double x) { return kLeft + axis.Place(x) * (kRight - kLeft); }
double PlaceY(const Axis& axis, double y) { return kBottom - axis.Place(y) * (kBottom - kTop); }

// Keeps lowest and highest of each group of neighbours, in order, so that spikes stay visible.
std::vector<std::pair<double, double>> Thin(const std::vector<std::pair<double, double>>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<std::pair<double, double>> thin;
  const size_t groups = kMostPoints / 2;
  for (size_t g = 0; g < groups; ++g) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(g * points.size() / groups);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>((g + 1) * points.size() / groups);
    const auto [low, high] =
        std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    thin.push_back(*std::min(low, high));
    if (low != high) thin.push_back(*std::max(low, high));
  }
  return thin;
}

std::string Grid(const LineChart& chart, const Axis& x, const Axis& y) {
  std::string svg;
  for (size_t i = 0; i < y.ticks.size(); ++i) {
    const double at = PlaceY(y, y.ticks[i]);
    const double step = y.log ? y.ticks[i] : y.ticks[1] - y.ticks[0];
    svg += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft, kRight, at, at);
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 7, at + 4,
                       EscapeHtml(FormatTick(y.ticks[i], step)));
  }
  const double x_step = x.ticks.size() > 1 ? x.ticks[1] - x.ticks[0] : 1.0;
  for (const double tick : x.ticks) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", PlaceX(x, tick), kBottom + 18,
                       EscapeHtml(FormatTick(tick, x.log ? tick : x_step)));
  }
  svg += fmt::format("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", kLeft, kRight, kBottom, kBottom);
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kRight, kBottom + 36,
                     EscapeHtml(chart.x_label));
  return svg;
}

std::string Curve(const Series& series, size_t color, const Axis& x, const Axis& y) {
  std::string path;
  std::string dots;
  bool pen_down = false;
  const auto points = Thin(series.points);
  for (const auto& point : points) {
    if (!Drawable(point, x.log, y.log)) {
      pen_down = false;
      continue;
    }
    const double px = PlaceX(x, point.first);
    const double py = PlaceY(y, point.second);
    if (series.line) path += fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', px, py);
    pen_down = true;
    if (series.markers || !series.line || points.size() == 1) {
      dots += fmt::format("<circle class=\"dot k{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>", color, px, py);
    }
  }
  return fmt::format("<path class=\"curve k{}\" d=\"{}\"{}/>{}", color, path,
                     series.dashed ? " stroke-dasharray=\"5 4\"" : "", dots);
}

std::string JsonNumber(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null"; }

// What the page's script needs to tell the values under the pointer.
std::string ChartData(const LineChart& chart, const Axis& x) {
  const auto quoted = [](std::string_view text) {
    std::string out;
    for (const char c : text) {
      if (c == '"' || c == '\\') out += '\\';
      if (static_cast<uint8_t>(c) >= 0x20) out += c;
    }
    return "\"" + out + "\"";
  };
  // Of a logarithmic axis it sees the logarithms.
  const auto across = [&x](double value) { return x.log ? std::log10(value) : value; };
  std::string json = fmt::format(
      "{{\"width\":{},\"left\":{},\"right\":{},\"x0\":{:.9g},\"x1\":{:.9g},\"log\":{},\"x_label\":{},\"series\":[",
      kWidth, kLeft, kRight, across(x.low), across(x.high), x.log, quoted(chart.x_label));
  for (size_t s = 0; s < chart.series.size(); ++s) {
    json += fmt::format("{}{{\"n\":{},\"p\":[", s == 0 ? "" : ",", quoted(chart.series[s].name));
    bool first = true;
    for (const auto& [px, py] : Thin(chart.series[s].points)) {
      if (!std::isfinite(across(px))) continue;
      json += fmt::format("{}[{},{}]", first ? "" : ",", JsonNumber(across(px)), JsonNumber(py));
      first = false;
    }
    json += "]}";
  }
  return json + "]}";
}

}  // namespace

std::vector<double> NiceTicks(double low, double high, int count) {
  const double span = high > low ? high - low : 1.0;
  const double rough = span / std::max(count, 1);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double fraction = rough / power;
  const double step = power * (fraction <= 1.0 ? 1 : fraction <= 2.0 ? 2 : fraction <= 5.0 ? 5 : 10);
  // Rounding must not add an empty step beyond a limit that is a multiple itself.
  const auto first = static_cast<int64_t>(std::floor(low / step + 1e-6));
  auto last = static_cast<int64_t>(std::ceil(high / step - 1e-6));
  if (last <= first) last = first + 1;
  std::vector<double> ticks;
  for (int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::string FormatTick(double value, double step) {
  if (std::abs(value) < std::abs(step) * 1e-6) return "0";
  const double size = std::abs(value);
  if (size >= 1e6 && std::abs(step) >= 1e5) return fmt::format("{:g} M", value / 1e6);
  if (size >= 1e4 && std::abs(step) >= 100) return fmt::format("{:g} k", value / 1e3);
  if (size < 1e-3) return fmt::format("{:.2g}", value);
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(std::abs(step)) + 1e-9)), 0, 9);
  return fmt::format("{:.{}f}", value, decimals);
}

std::string RenderLineChart(const LineChart& chart) {
  const Axis x = XAxis(Extent(chart, true), chart.log_x);
  const Axis y = YAxis(Extent(chart, false), chart.log_y);
  std::string legend = "<div class=\"legend\">";
  std::string curves;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    legend += fmt::format("<span><i class=\"k{}{}\"></i>{}</span>", s % 8, chart.series[s].dashed ? " dash" : "",
                          EscapeHtml(chart.series[s].name));
    curves += Curve(chart.series[s], s % 8, x, y);
  }
  if (!chart.y_label.empty())
    legend += fmt::format("<span style=\"margin-left:auto\">{}</span>", EscapeHtml(chart.y_label));
  return fmt::format(
      "{}</div><svg class=\"lines\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" data-chart=\"{}\">{}"
      "<line class=\"axis cross\" y1=\"{}\" y2=\"{}\" style=\"visibility:hidden\"/>{}</svg>",
      legend, kWidth, kHeight, EscapeHtml(chart.title), EscapeHtml(ChartData(chart, x)), Grid(chart, x, y), kTop,
      kBottom, curves);
}

}  // namespace antiphon::report::internal
