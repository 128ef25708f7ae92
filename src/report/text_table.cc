#include "report/text_table.h"

#include <algorithm>

#include "base/utf8.h"

namespace antiphon::report {

std::vector<std::string> TextTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayColumns(row[i]));
  }
  std::vector<std::string> lines;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - DisplayColumns(row[i]), ' ');
      line += i == 0 ? row[i] + space : "  " + space + row[i];
    }
    lines.push_back(line.substr(0, line.find_last_not_of(' ') + 1));
  }
  return lines;
}

}  // namespace antiphon::report
