// Where two descriptions of an experiment, text of many lines, differ.
#pragma once

#include <optional>
#include <string>

namespace antiphon::train {

struct LineDifference {
  std::string first;  // the line as it stands in each; "(nothing)" where that text has ended
  std::string second;
};

/// The first line that is not the same.
std::optional<LineDifference> FirstDifference(const std::string& first, const std::string& second);

}  // namespace antiphon::train
