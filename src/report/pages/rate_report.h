// The page about a search for a learning rate: loss against rate.
//
// Threads: pure functions. Errors: IoError.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace antiphon::report {

struct RatePage {
  std::vector<std::pair<double, double>> losses;    // (rate, loss of a minibatch)
  std::vector<std::pair<double, double>> smoothed;  // (rate, running mean)
  std::optional<double> steepest;
  std::optional<double> lowest;
  std::string remark;
  std::string configuration;
};

void WriteRatePage(const RatePage& page, const std::string& subtitle, const std::filesystem::path& file);

}  // namespace antiphon::report
