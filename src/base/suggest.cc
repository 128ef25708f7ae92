#include "base/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/edit_distance.h"

namespace antiphon {
namespace {

std::string_view WithoutDashes(std::string_view name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

// "--epoch" is as near to "--schedule.epochs" as to "--epochs".
size_t Distance(std::string_view name, std::string_view candidate) {
  const size_t whole = EditDistance(name, candidate);
  const size_t dot = candidate.rfind('.');
  if (dot == std::string_view::npos) return whole;
  return std::min(whole, EditDistance(WithoutDashes(name), candidate.substr(dot + 1)));
}

// The closest, however far they are; the closest first.
std::vector<std::string> NearestNames(std::string_view name, std::vector<std::string> candidates, size_t count) {
  // What holds the name as a part of its own, "schedule.learning-rate", is nearer than any other.
  const auto distance = [&](const std::string& candidate) {
    const std::string_view bare = WithoutDashes(name);
    return !bare.empty() && candidate.ends_with(bare) ? 0 : Distance(name, candidate);
  };
  std::vector<std::pair<size_t, std::string>> by_distance;
  for (std::string& candidate : candidates) by_distance.emplace_back(distance(candidate), std::move(candidate));
  std::stable_sort(by_distance.begin(), by_distance.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> nearest;
  for (size_t i = 0; i < std::min(count, by_distance.size()); ++i) nearest.push_back(std::move(by_distance[i].second));
  return nearest;
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  return EditDistance(std::span<const char>(a), std::span<const char>(b));
}

std::string Nearest(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = Distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string UnknownNameMessage(std::string_view kind, std::string_view name,
                               const std::vector<std::string>& candidates) {
  constexpr size_t kFew = 16;
  constexpr size_t kShown = 3;
  const std::string nearest = Nearest(name, candidates);
  const std::string meant = nearest.empty() ? "" : fmt::format(" (did you mean '{}'?)", nearest);
  if (candidates.size() <= kFew) {
    return fmt::format("unknown {} '{}'{}; known: {}", kind, name, meant, fmt::join(candidates, ", "));
  }
  return fmt::format("unknown {} '{}'{}; nearest of {}: {}", kind, name, meant, candidates.size(),
                     fmt::join(NearestNames(name, candidates, kShown), ", "));
}

}  // namespace antiphon
