#include "report/pages/comparison_report.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "report/metrics.h"

namespace antiphon::report {
namespace {

EpochPoint ReadPoint(const MetricsRecord& record) {
  EpochPoint point;
  for (const char* key : {"arithmetic_seconds", "data_seconds", "communication_seconds", "other_seconds"}) {
    point.seconds += record.Number(key).value_or(0);
  }
  if (const double time = record.Number("virtual_seconds").value_or(0); time > 0) point.seconds = time;
  point.frames = record.Number("frames").value_or(0);
  point.gigabytes = record.Number("bytes_sent").value_or(0) / 1e9;
  point.held_out_loss = record.Number("held_out_loss").value_or(NAN);
  point.held_out_accuracy = record.Number("held_out_accuracy").value_or(NAN);
  return point;
}

// As `antiphon decode` leaves it; none if the run was not decoded, or on speech without transcripts.
std::optional<double> ReadWordErrorRate(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return std::nullopt;
  const auto json = nlohmann::json::parse(ReadFile(file), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) Throw<InputError>("'{}' is no JSON", file.string());
  const auto found = json.find("score");
  if (found == json.end() || !found->contains("error_rate")) return std::nullopt;
  return found->at("error_rate").get<double>();
}

RunFigures ReadRun(const ComparedRun& run) {
  RunFigures figures;
  figures.seed = run.seed;
  MetricsRecord last, finish;
  for (const MetricsRecord& record : report::ReadMetrics(run.folder / "metrics.jsonl")) {
    if (record.kind() == "finish") finish = record;
    if (record.kind() != "epoch") continue;
    last = record;
    figures.curve.push_back(ReadPoint(record));
  }
  if (figures.curve.empty()) Throw<InputError>("'{}' holds no finished epoch", run.folder.string());
  const MetricsRecord& end = finish.Has("held_out_loss") ? finish : last;
  figures.accuracy = end.Number("held_out_accuracy").value_or(NAN);
  figures.loss = end.Number("held_out_loss").value_or(NAN);
  figures.frames_per_second = last.Number("frames_per_second").value_or(0);
  figures.staleness = last.Number("staleness");
  figures.word_error_rate = ReadWordErrorRate(run.folder / "decode" / "summary.json");
  figures.arithmetic_seconds = last.Number("arithmetic_seconds").value_or(0);
  figures.data_seconds = last.Number("data_seconds").value_or(0);
  figures.communication_seconds = last.Number("communication_seconds").value_or(0);
  figures.other_seconds = last.Number("other_seconds").value_or(0);
  return figures;
}

double BestLoss(const std::vector<EpochPoint>& curve) {
  double best = INFINITY;
  for (const EpochPoint& point : curve) best = std::min(best, point.held_out_loss);
  return best;
}

std::optional<double> SecondsToLoss(const std::vector<EpochPoint>& curve, double loss) {
  for (size_t i = 0; i < curve.size(); ++i) {
    if (!(curve[i].held_out_loss <= loss)) continue;
    if (i == 0) return curve[0].seconds;
    const EpochPoint& a = curve[i - 1];
    const double drop = a.held_out_loss - curve[i].held_out_loss;
    const double share = drop > 0 ? (a.held_out_loss - loss) / drop : 1.0;
    return a.seconds + share * (curve[i].seconds - a.seconds);
  }
  return std::nullopt;
}

// Over the runs for which `value` gives one.
template <class Value>
MeanAndSpread Over(const std::vector<RunFigures>& runs, const Value& value) {
  std::vector<double> values;
  for (const RunFigures& run : runs) {
    if (const std::optional<double> v = value(run)) values.push_back(*v);
  }
  return Summarise(values);
}

ComparedRow ReadRow(const std::vector<ComparedRun>& runs) {
  ComparedRow row;
  row.method = runs.front().method;
  row.workers = runs.front().workers;
  double exchange = 0, steps = 0;
  for (const ComparedRun& run : runs) {
    if (!run.failure.empty()) {
      row.failures.push_back(run.failure);
      continue;
    }
    row.runs.push_back(ReadRun(run));
    const RunFigures& r = row.runs.back();
    exchange += r.communication_seconds;
    steps += r.arithmetic_seconds + r.data_seconds + r.communication_seconds;
  }
  using Number = std::optional<double>;
  row.accuracy = Over(row.runs, [](const RunFigures& r) { return Number(r.accuracy); });
  row.loss = Over(row.runs, [](const RunFigures& r) { return Number(r.loss); });
  row.word_error_rate = Over(row.runs, [](const RunFigures& r) { return r.word_error_rate; });
  row.seconds = Over(row.runs, [](const RunFigures& r) { return Number(r.curve.back().seconds); });
  row.frames_per_second = Over(row.runs, [](const RunFigures& r) { return Number(r.frames_per_second); });
  row.gigabytes_sent = Over(row.runs, [](const RunFigures& r) { return Number(r.curve.back().gigabytes); });
  row.staleness = Over(row.runs, [](const RunFigures& r) { return r.staleness; });
  row.exchange_share = steps > 0 ? exchange / steps : 0;
  return row;
}

}  // namespace

MeanAndSpread Summarise(const std::vector<double>& values) {
  MeanAndSpread result;
  result.count = static_cast<int>(values.size());
  if (values.empty()) return result;
  for (const double v : values) result.mean += v / static_cast<double>(values.size());
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double v : values) squares += (v - result.mean) * (v - result.mean);
  result.spread = std::sqrt(squares / static_cast<double>(values.size() - 1));
  return result;
}

Comparison Compare(const std::vector<ComparedRun>& runs) {
  Comparison comparison;
  std::vector<std::vector<ComparedRun>> groups;
  for (const ComparedRun& run : runs) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.front().method == run.method && group.front().workers == run.workers;
    });
    if (same == groups.end()) same = groups.insert(groups.end(), std::vector<ComparedRun>{});
    same->push_back(run);
  }
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    // Numbers of workers in their order within each method, wherever they were run.
    for (auto later = group + 1; later != groups.end(); ++later) {
      if (later->front().method != group->front().method) continue;
      if (later->front().workers < group->front().workers) std::swap(*later, *group);
    }
  }
  comparison.common_loss = -INFINITY;
  for (const auto& group : groups) {
    comparison.rows.push_back(ReadRow(group));
    for (const RunFigures& run : comparison.rows.back().runs) {
      comparison.common_loss = std::max(comparison.common_loss, BestLoss(run.curve));
    }
  }
  for (ComparedRow& row : comparison.rows) {
    row.seconds_to_common_loss =
        Over(row.runs, [&](const RunFigures& r) { return SecondsToLoss(r.curve, comparison.common_loss); });
    const std::vector<RunFigures>& first = comparison.rows.front().runs;
    row.accuracy_difference = Over(row.runs, [&](const RunFigures& r) -> std::optional<double> {
      const auto same = std::find_if(first.begin(), first.end(), [&](const RunFigures& f) { return f.seed == r.seed; });
      if (&row == &comparison.rows.front() || same == first.end()) return std::nullopt;
      return r.accuracy - same->accuracy;
    });
  }
  return comparison;
}

std::string Label(const ComparedRow& row) {
  return row.workers == 1 ? row.method : row.method + " × " + std::to_string(row.workers);
}

}  // namespace antiphon::report
