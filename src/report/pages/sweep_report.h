// Runs of one training with other values of some options, sorted by how good they became: tables and a page.
//
// Units: losses in nats per held-out frame; accuracies as shares of frames. What is read is each run's metrics.jsonl.
// Threads: pure functions. Errors: InputError for metrics that cannot be read.
#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace antiphon::report {

struct SweptRun {
  enum class State { kWaiting, kUnderWay, kFinished, kGivenUp, kFailed };
  int number = 0;                                           // from 1
  std::vector<std::pair<std::string, std::string>> values;  // key and value, the same keys in the same order in all
  std::filesystem::path folder;
  State state = State::kWaiting;
  std::string failure;  // of kFailed

  // As far as it came; see TakeFigures.
  std::vector<std::pair<double, double>> losses;  // (epoch, held-out loss), the untrained model at 0
  double loss = std::numeric_limits<double>::infinity();
  double accuracy = 0;
  int epochs = 0;
};

/// Fills in what the run's metrics say; nothing where there are none.
void TakeFigures(SweptRun& run);
/// The held-out loss once `epochs` were done, or after the last one before; infinity if there is none, or it failed.
double LossAfter(const SweptRun& run, int epochs);

/// Finished ones by loss; then those given up, who came farthest first, by loss; then the others. Equal ones by number.
std::vector<SweptRun> Sorted(std::vector<SweptRun> runs);

/// Of sorted runs. For a terminal; for a page of documentation; for programs.
std::string TextTable(const std::vector<SweptRun>& runs);
std::string MarkdownTable(const std::vector<SweptRun>& runs);
std::string ToJson(const std::vector<SweptRun>& runs);
void WriteSweep(const std::vector<SweptRun>& runs, const std::string& title, const std::string& subtitle,
                const std::string& configuration, const std::filesystem::path& file);

}  // namespace antiphon::report
