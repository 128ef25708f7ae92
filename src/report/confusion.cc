#include "report/confusion.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "base/file.h"

namespace antiphon::report {

double Confusion::accuracy() const {
  double correct = 0;
  double all = 0;
  for (size_t r = 0; r < counts.size(); ++r) {
    correct += counts[r][r];
    all = std::accumulate(counts[r].begin(), counts[r].end(), all);
  }
  return all > 0 ? correct / all : 0;
}

void Confusion::Save(const std::filesystem::path& path) const {
  WriteFileAtomically(path, nlohmann::json({{"phones", names}, {"frames", counts}}).dump() + "\n");
}

Confusion Confusion::Load(const std::filesystem::path& path) {
  try {
    const auto json = nlohmann::json::parse(ReadFile(path));
    Confusion confusion{json.at("phones").get<std::vector<std::string>>(),
                        json.at("frames").get<std::vector<std::vector<double>>>()};
    bool square = confusion.counts.size() == confusion.names.size();
    for (const auto& row : confusion.counts) square = square && row.size() == confusion.names.size();
    if (!square) Throw<InputError>("'{}': expected one row and one column per phone", path.string());
    return confusion;
  } catch (const nlohmann::json::exception& e) {
    Throw<InputError>("'{}' is no table of confusions: {}", path.string(), e.what());
  }
}

}  // namespace antiphon::report
