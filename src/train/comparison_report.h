// Training runs of one task by several methods, side by side: a table and a page with accuracy against time and frames.
//
// A row is a method with a number of workers; its runs differ in the seed alone, and figures are means with standard
// deviations over them. What is read is each run's metrics.jsonl (records "epoch" and "finish").
// Units: time in seconds of the run itself (steps, data, exchange, evaluation), or of a simulated cluster; frames of
// all workers.
// Threads: pure functions. Errors: InputError for run folders without metrics.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "report/html.h"

namespace antiphon::train {

/// One trained model, or the reason why there is none.
struct ComparedRun {
  std::string method;  // name of the row, without the workers
  int workers = 1;
  uint64_t seed = 1;
  std::filesystem::path folder;
  std::string failure;  // "" if it was trained
};

struct MeanAndSpread {
  double mean = 0;
  double spread = 0;  // standard deviation, 0 for one value
  int count = 0;
};
MeanAndSpread Summarise(const std::vector<double>& values);

/// State of a run after an epoch.
struct EpochPoint {
  double seconds = 0;
  double frames = 0;
  double held_out_loss = 0;
  double held_out_accuracy = 0;
};

struct ComparedRow {
  std::string method;
  int workers = 1;
  std::vector<std::string> failures;
  std::vector<std::vector<EpochPoint>> curves;  // one per run
  MeanAndSpread accuracy;                       // at the end, shares
  MeanAndSpread loss;
  MeanAndSpread seconds;
  MeanAndSpread frames_per_second;
  MeanAndSpread seconds_to_common_loss;  // to the loss that all rows reach; linear between epochs
  MeanAndSpread gigabytes_sent;
  MeanAndSpread staleness;  // count 0 if the method has none
  double arithmetic_seconds = 0;
  double data_seconds = 0;
  double communication_seconds = 0;
  double other_seconds = 0;
};

struct Comparison {
  std::vector<ComparedRow> rows;  // in the order of the runs
  double common_loss = 0;         // held-out, nats per frame
};

Comparison Compare(const std::vector<ComparedRun>& runs);

/// For a terminal.
std::string TextTable(const Comparison& comparison);
std::string ToJson(const Comparison& comparison);
void WriteComparison(const Comparison& comparison, const std::string& subtitle, const std::string& configuration,
                     const std::filesystem::path& file);

}  // namespace antiphon::train
