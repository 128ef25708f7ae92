// What `antiphon simulate` and `antiphon plan` print, as text, JSON and page.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/planner.h"
#include "plan/published.h"

namespace antiphon::app {

/// One simulated run of `antiphon simulate`.
struct SimulatedRun {
  plan::CostPlan plan;
  plan::CostResult result;
};

std::vector<std::vector<std::string>> Rows(const std::vector<SimulatedRun>& runs);
std::vector<std::vector<std::string>> Rows(const plan::PublishedTable& table);
nlohmann::json ToJson(const SimulatedRun& run);
nlohmann::json ToJson(const plan::PublishedTable& table);
nlohmann::json ToJson(const plan::Candidate& candidate);

std::string SimulationPage(const std::vector<SimulatedRun>& runs, const std::string& network,
                           const std::string& cluster);
std::string PublishedPage(const std::vector<plan::PublishedTable>& tables);

}  // namespace antiphon::app
