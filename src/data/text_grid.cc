#include "data/text_grid.h"

#include <fmt/format.h>

#include <algorithm>

namespace antiphon::data {
namespace {

// Shorter ones are rounding.
constexpr double kShortest = 1e-6;

// From 0 to the end, without gaps or overlaps.
std::vector<LabelledInterval> Filled(const std::vector<LabelledInterval>& intervals, double end_s) {
  std::vector<LabelledInterval> all;
  double at = 0;
  const auto fill_to = [&](double place_s) {
    if (place_s - at > kShortest || (all.empty() && intervals.empty())) all.push_back({at, place_s, ""});
  };
  for (const LabelledInterval& interval : intervals) {
    const double start = std::max(at, interval.start_s);
    if (interval.end_s - start <= kShortest) continue;
    fill_to(start);
    all.push_back({start - at > kShortest ? start : at, interval.end_s, interval.label});
    at = interval.end_s;
  }
  fill_to(end_s);
  return all;
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string TierText(size_t number, const std::string& name, const std::vector<LabelledInterval>& intervals,
                     double end_s) {
  std::string text = fmt::format(
      "    item [{}]:\n        class = \"IntervalTier\"\n        name = {}\n        xmin = 0\n        xmax = {:.6f}\n"
      "        intervals: size = {}\n",
      number, Quoted(name), end_s, intervals.size());
  for (size_t i = 0; i < intervals.size(); ++i) {
    text += fmt::format(
        "        intervals [{}]:\n            xmin = {:.6f}\n            xmax = {:.6f}\n            text = {}\n", i + 1,
        intervals[i].start_s, intervals[i].end_s, Quoted(intervals[i].label));
  }
  return text;
}

}  // namespace

std::string TextGrid(const std::vector<IntervalTier>& tiers, double duration_s) {
  double end_s = duration_s;
  for (const IntervalTier& tier : tiers) {
    for (const LabelledInterval& interval : tier.intervals) end_s = std::max(end_s, interval.end_s);
  }
  std::string text = fmt::format(
      "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\nxmin = 0\nxmax = {:.6f}\ntiers? <exists>\n"
      "size = {}\nitem []:\n",
      end_s, tiers.size());
  for (size_t i = 0; i < tiers.size(); ++i) {
    text += TierText(i + 1, tiers[i].name, Filled(tiers[i].intervals, end_s), end_s);
  }
  return text;
}

}  // namespace antiphon::data
