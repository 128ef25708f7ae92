// Losses as people read them.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace antiphon {

/// Four digits behind the point; of small ones, like the few wrong frames of sMBR, three that are not 0.
inline std::string LossText(double loss) {
  return std::abs(loss) >= 0.1 || loss == 0 ? fmt::format("{:.4f}", loss) : fmt::format("{:.3g}", loss);
}

}  // namespace antiphon
