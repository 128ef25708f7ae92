// Blanks at the ends of a field or of a line.
//
//   Trim(" a b\t\r") == "a b"
#pragma once

#include <string_view>

namespace antiphon {

/// What stands between the fields of one line, as C's isspace and Kaldi's tables have it, without the line's end. The
/// carriage return of a Windows line end is one of them.
inline constexpr std::string_view kBlanks = " \t\r\v\f";

/// The text without blanks at its ends: a part of `text`, or empty.
constexpr std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace antiphon
