// Where a call of the library runs a stage: in this process alone, with sentences for the log.
#pragma once

#include <cstdint>
#include <string>

#include "base/log.h"
#include "base/team.h"
#include "base/thread_pool.h"
#include "pipeline/stage_host.h"

namespace antiphon {

/// `threads`: as settings have them, 0 for all cores.
inline pipeline::StageHost HostAlone(uint64_t seed, int threads) {
  if (threads <= 0) threads = NumCores();
  return {.threads = threads,
          .seed = seed,
          .say = [](const std::string& sentence) { log::Info("{}", sentence); },
          .in_team = [threads](const auto& body) { body(Team::Alone(), threads); }};
}

}  // namespace antiphon
