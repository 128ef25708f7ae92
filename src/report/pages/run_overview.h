// How a training run stands, as a few lines for a terminal: progress, loss, speed, and what each worker does.
//
// Made of metrics.jsonl alone, so that a run is looked at from anywhere, also while it goes on. Threads: plain
// functions. Errors: those of ReadMetrics.
#pragma once

#include <string>
#include <vector>

#include "report/metrics.h"

namespace antiphon::report {

/// Lines of at most `width` columns. Empty records: a run that has not begun.
std::vector<std::string> OverviewOfRun(const std::vector<MetricsRecord>& records, int width);

/// "longest wait of the last epoch: worker 0, 12.3 s for worker 3, for which all waited 40.1 s"; empty for records
/// without times of workers.
std::string LongestWait(const MetricsRecord& epoch);

}  // namespace antiphon::report
