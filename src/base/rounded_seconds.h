// Times for people and programs: hundredths of a second, the least that a frame tells.
#pragma once

#include <cmath>

namespace antiphon {

/// As JSON prints it, with two decimals at most.
inline double RoundedSeconds(double seconds) { return std::round(100.0 * seconds) / 100.0; }

}  // namespace antiphon
