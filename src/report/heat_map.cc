#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "report/html.h"

namespace antiphon::report::internal {
namespace {

double Sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

}  // namespace

std::string RenderHeatMap(const HeatMap& map) {
  CHECK_EQ(map.counts.size(), map.names.size());
  const double cell = map.names.size() > 60 ? 10 : 15;
  size_t longest = 1;
  for (const std::string& name : map.names) longest = std::max(longest, name.size());
  const double margin = 24 + 6.2 * static_cast<double>(longest);
  const double side = margin + cell * static_cast<double>(map.names.size()) + 2;
  std::string svg = fmt::format(
      "<svg class=\"heat\" viewBox=\"0 0 {:.0f} {:.0f}\" style=\"max-width:{:.0f}px\" role=\"img\" aria-label=\"{}\">",
      side, side, std::min(1.5 * side, 1000.0), EscapeHtml(map.title));
  for (size_t i = 0; i < map.names.size(); ++i) {
    const double at = margin + cell * static_cast<double>(i);
    const std::string name = EscapeHtml(map.names[i]);
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", margin - 5,
                       at + cell * 0.5 + 3.5, name);
    svg += fmt::format("<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\">{}</text>", at + cell * 0.5 + 3.5,
                       margin - 5, name);
  }
  svg += fmt::format("<text x=\"{:.1f}\" y=\"10\">{} →</text>", margin, EscapeHtml(map.column_label));
  svg += fmt::format("<text transform=\"translate(10 {:.1f}) rotate(-90)\" text-anchor=\"end\">← {}</text>", margin,
                     EscapeHtml(map.row_label));
  for (size_t r = 0; r < map.counts.size(); ++r) {
    CHECK_EQ(map.counts[r].size(), map.names.size());
    const double total = Sum(map.counts[r]);
    for (size_t c = 0; c < map.counts[r].size(); ++c) {
      const double share = total > 0 ? map.counts[r][c] / total : 0.0;
      // The square root makes rare confusions visible; what is invisible anyway is left out.
      if (share < 0.002) continue;
      svg += fmt::format(
          "<rect class=\"cell{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill-opacity=\"{:.2f}\" "
          "data-tip=\"{}\"/>",
          r == c ? "" : " off", margin + cell * static_cast<double>(c), margin + cell * static_cast<double>(r),
          cell - 1, cell - 1, std::sqrt(share),
          EscapeHtml(
              fmt::format("{} recognised as {}: {:.1f} % of {:.0f}", map.names[r], map.names[c], 100 * share, total)));
    }
  }
  return svg + "</svg>";
}

std::string RenderShareBars(const ShareBars& bars) {
  std::string html = "<div class=\"legend\">";
  for (size_t p = 0; p < bars.parts.size(); ++p) {
    html += fmt::format("<span><i class=\"box k{}\"></i>{}</span>", p % 8, EscapeHtml(bars.parts[p]));
  }
  html += "</div><div class=\"shares\">";
  for (const ShareBars::Row& row : bars.rows) {
    CHECK_EQ(row.values.size(), bars.parts.size());
    const double total = Sum(row.values);
    html += fmt::format("<span>{}</span><div class=\"bar\">", EscapeHtml(row.name));
    for (size_t p = 0; p < row.values.size(); ++p) {
      const double share = total > 0 ? 100 * row.values[p] / total : 0.0;
      if (share <= 0) continue;
      html += fmt::format(
          "<div class=\"part k{}\" style=\"width:{:.2f}%\" data-tip=\"{}\">{}</div>", p % 8, share,
          EscapeHtml(fmt::format("{}: {:.1f} % ({:.4g} {})", bars.parts[p], share, row.values[p], bars.unit)),
          share >= 7 ? fmt::format("{:.1f} %", share) : std::string());
    }
    html += "</div>";
  }
  return html + "</div>";
}

}  // namespace antiphon::report::internal
