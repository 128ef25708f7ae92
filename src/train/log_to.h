// Where a run's metrics go besides its folder: --log-to.
//
// Threads: the listener is called by one thread at a time. Errors: UsageError for a target that cannot be; IoError.
#pragma once

#include <string>
#include <vector>

#include "base/config.h"
#include "train/run_log.h"

namespace antiphon::train {

/// UsageError for what is no target.
void CheckTargets(const std::vector<std::string>& targets);

/// Hears every record of the run in `folder` and hands it on, to `other` last, if that is not empty. `configuration`:
/// what the run was told, whose values go with it.
RunLog::Listener ListenerTo(const std::vector<std::string>& targets, const std::filesystem::path& folder,
                            const Config& configuration, RunLog::Listener other);

}  // namespace antiphon::train
