// What `antiphon simulate` and `antiphon plan` print, as text, JSON and page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "parallel/cost/planner.h"
#include "parallel/cost/published.h"

namespace antiphon::app {

/// One simulated run of `antiphon simulate`.
struct SimulatedRun {
  parallel::CostPlan plan;
  parallel::CostResult result;
};

std::vector<std::vector<std::string>> Rows(const std::vector<SimulatedRun>& runs);
std::vector<std::vector<std::string>> Rows(const parallel::PublishedTable& table);
nlohmann::json ToJson(const SimulatedRun& run);
nlohmann::json ToJson(const parallel::PublishedTable& table);
nlohmann::json ToJson(const parallel::Candidate& candidate);

std::string SimulationPage(const std::vector<SimulatedRun>& runs, const std::string& network,
                           const std::string& cluster);
std::string PublishedPage(const std::vector<parallel::PublishedTable>& tables);

}  // namespace antiphon::app
