// Where a stage is run that runs others, and whom it tells.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/team.h"

namespace antiphon::pipeline {

struct StageHost {
  int threads = 1;
  uint64_t seed = 1;
  /// A sentence for the person.
  std::function<void(const std::string& sentence)> say;
  /// Runs the body in every process that belongs to the run, with the threads that are its share.
  std::function<void(const std::function<void(Team& team, int threads)>& body)> in_team;
};

}  // namespace antiphon::pipeline
