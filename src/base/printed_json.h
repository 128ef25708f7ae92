// JSON as text that is UTF-8 whatever bytes came in: names of files, what clients sent, words of a lexicon.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace antiphon {

/// What is no UTF-8 becomes U+FFFD. `indent`: of each level, in a line of its own; −1: all in one line.
inline std::string PrintedJson(const nlohmann::ordered_json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace antiphon
