// Praat's TextGrid: intervals with labels, in tiers, as Praat, ELAN and the Montreal tools read them.
//
// Units: seconds. Threads: pure functions. Errors: of reading, IoError; InputError naming the file. Source: Praat's
// manual, "TextGrid file formats".
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace antiphon::data {

struct LabelledInterval {
  double start_s = 0.0;
  double end_s = 0.0;
  std::string label;
};

/// Its intervals are in order. What lies between them, which Praat wants too, is filled with empty labels; where one
/// begins before the last one ended, it begins there.
struct IntervalTier {
  std::string name;
  std::vector<LabelledInterval> intervals;
};

/// The file as text, in UTF-8, from 0 to `duration_s`, or to the last interval's end if that is later.
std::string TextGrid(const std::vector<IntervalTier>& tiers, double duration_s);

/// Tiers of intervals, empty labels included, of the long or the short text format, in UTF-8 or UTF-16; tiers of points
/// are passed over.
std::vector<IntervalTier> ReadTextGrid(const std::filesystem::path& file);

}  // namespace antiphon::data
