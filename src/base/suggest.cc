#include "base/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "base/edit_distance.h"

namespace antiphon {

size_t EditDistance(std::string_view a, std::string_view b) {
  return EditDistance(std::span<const char>(a), std::span<const char>(b));
}

std::string Nearest(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string UnknownNameMessage(std::string_view kind, std::string_view name,
                               const std::vector<std::string>& candidates) {
  const std::string nearest = Nearest(name, candidates);
  return fmt::format("unknown {} '{}'{}; known: {}", kind, name,
                     nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest), fmt::join(candidates, ", "));
}

}  // namespace antiphon
