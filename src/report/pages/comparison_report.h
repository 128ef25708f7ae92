// Training runs of one task by several methods, side by side: tables and a page with accuracy against time, frames and
// bytes sent.
//
// A row is a method with a number of workers; its runs differ in the seed alone, and figures are means with standard
// deviations over them. The first row is what the others are measured against: differences are taken seed by seed, as
// each seed holds other utterances out. What is read is each run's metrics.jsonl (records "epoch" and "finish") and,
// where the run was decoded, the word error rate in decode/summary.json.
// Units: time in seconds of the run itself (steps, data, exchange, evaluation), or of a simulated cluster; frames and
// bytes of all workers; rates as shares.
// Threads: pure functions. Errors: InputError for run folders without metrics.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/html.h"

namespace antiphon::report {

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
  double gigabytes = 0;
  double held_out_loss = 0;
  double held_out_accuracy = 0;
};

/// A run at its end.
struct RunFigures {
  uint64_t seed = 1;
  std::vector<EpochPoint> curve;
  double accuracy = 0;
  double loss = 0;
  double frames_per_second = 0;
  std::optional<double> staleness;
  std::optional<double> word_error_rate;
  double arithmetic_seconds = 0;
  double data_seconds = 0;
  double communication_seconds = 0;
  double other_seconds = 0;
};

struct ComparedRow {
  std::string method;
  int workers = 1;
  std::vector<std::string> failures;
  std::vector<RunFigures> runs;
  MeanAndSpread accuracy;  // held-out frames at the end
  MeanAndSpread loss;
  MeanAndSpread accuracy_difference;  // from the first row's run of the same seed; count 0 if there is none
  MeanAndSpread word_error_rate;
  MeanAndSpread seconds;
  MeanAndSpread frames_per_second;
  MeanAndSpread seconds_to_common_loss;  // to the loss that all rows reach; linear between epochs
  MeanAndSpread gigabytes_sent;
  MeanAndSpread staleness;    // count 0 if the method has none
  double exchange_share = 0;  // of worker 0's steps
};

struct Comparison {
  std::vector<ComparedRow> rows;  // in the order of the runs
  double common_loss = 0;         // held-out, nats per frame
};

Comparison Compare(const std::vector<ComparedRun>& runs);

/// "bmuf × 4"; the method alone for one worker.
std::string Label(const ComparedRow& row);
/// Head and cells of the table of all rows; the first column names the method, the others are figures.
std::vector<std::string> ComparisonHeader(const Comparison& comparison);
std::vector<std::string> ComparisonCells(const ComparedRow& row, const Comparison& comparison);
/// The same figure of all methods (first column) by numbers of workers, the head first.
struct Overview {
  std::string title{};
  std::vector<std::vector<std::string>> lines{};
};
std::vector<Overview> Overviews(const Comparison& comparison);
extern const char* const kComparisonNote;

/// For a terminal; for a page of documentation; for programs.
std::string TextTable(const Comparison& comparison);
std::string MarkdownTables(const Comparison& comparison);
std::string ToJson(const Comparison& comparison);
void WriteComparison(const Comparison& comparison, const std::string& title, const std::string& subtitle,
                     const std::string& configuration, const std::filesystem::path& file);

}  // namespace antiphon::report
