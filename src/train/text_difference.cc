#include "train/text_difference.h"

#include <sstream>

namespace antiphon::train {

std::optional<LineDifference> FirstDifference(const std::string& first, const std::string& second) {
  std::istringstream a(first);
  std::istringstream b(second);
  LineDifference lines;
  while (true) {
    const bool more_a = static_cast<bool>(std::getline(a, lines.first));
    const bool more_b = static_cast<bool>(std::getline(b, lines.second));
    if (!more_a && !more_b) return std::nullopt;
    if (!more_a) lines.first = "(nothing)";
    if (!more_b) lines.second = "(nothing)";
    if (lines.first != lines.second || !more_a || !more_b) return lines;
  }
}

}  // namespace antiphon::train
