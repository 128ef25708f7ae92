// Tables for a terminal.
#pragma once

#include <string>
#include <vector>

namespace antiphon::report {

/// One line per row, the columns as wide as they need, the first to the left, the others to the right. Widths count
/// characters, not bytes.
std::vector<std::string> TextTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace antiphon::report
