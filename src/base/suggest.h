// "Did you mean …": the nearest of a list of names by edit distance.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace antiphon {

/// Levenshtein distance with unit costs over bytes.
size_t EditDistance(std::string_view a, std::string_view b);

/// The closest candidate, or "" if none is within a third of the name's length (at least 2).
std::string Nearest(std::string_view name, const std::vector<std::string>& candidates);

/// "unknown KIND 'name' (did you mean 'x'?); known: a, b, c".
std::string UnknownNameMessage(std::string_view kind, std::string_view name,
                               const std::vector<std::string>& candidates);

}  // namespace antiphon
