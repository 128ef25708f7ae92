// The page about a training run, from what lies in its run folder.
//
// Reads metrics.jsonl, config.toml and confusion.json (as far as they are there), so that it can be made again at any
// time, also while the run goes on. Errors: InputError or IoError for metrics that cannot be read.
#pragma once

#include <filesystem>

#include "report/html.h"

namespace antiphon::report {

/// Writes report.html into the run folder.
void WriteTrainingReport(const std::filesystem::path& run_folder);
/// Adds curves, shares, confusion and configuration of a run to a larger page.
void AddTrainingSections(report::HtmlReport& page, const std::filesystem::path& run_folder);

}  // namespace antiphon::report
