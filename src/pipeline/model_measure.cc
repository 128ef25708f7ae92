#include "pipeline/model_measure.h"

#include <utility>

#include "base/compute_threads.h"
#include "base/error.h"
#include "infer/measure.h"
#include "pipeline/decode.h"

namespace antiphon::pipeline {

std::string ScoringPrecision(const nn::Model& model) {
  const DataType precision = infer::ParsePlanPrecision("auto", model.network, Isa::kPortable);
  return std::string(infer::PlanPrecisionName(precision));
}

ScoringCost MeasureScoring(const nn::Model& model, int batch, const std::string& precision, int threads_afterwards) {
  SetComputeThreads(1);
  infer::PlanOptions options;
  options.precision = infer::ParsePlanPrecision(precision.empty() ? ScoringPrecision(model) : precision);
  const infer::Plan plan(model.network, options);
  const infer::PlanSpeed speed = infer::MeasurePlan(plan, batch, 0.5);
  SetComputeThreads(threads_afterwards);
  const int64_t window = int64_t{model.feature_dim} * (model.left_context + 1 + model.right_context);
  return {speed.frames_per_second * model.frames_per_forward, speed.weight_bytes,
          speed.state_bytes + window * int64_t{sizeof(float)}};
}

DecodeRequest ReadDecodeTable(const Config& table) {
  auto request = ReadOptions<DecodeRequest>(table, {"threads", "seed", "json", "device"});
  for (const auto& [key, value] : {std::pair("data", &request.data), std::pair("graph", &request.graph)}) {
    if (value->empty()) Throw<UsageError>("{}: decoding needs {}", table.Where(), key);
  }
  if (const auto seed = table.Int("seed")) request.seed = static_cast<uint64_t>(*seed);
  return request;
}

WordErrors MeasureWordErrors(const Config& decode, const std::filesystem::path& model_file, const nn::Model& model,
                             const std::filesystem::path& out, const StageHost& host) {
  DecodeRequest request = ReadDecodeTable(decode);
  request.model = model_file.string();
  request.out = out.string();
  request.lattices = false;
  if (!decode.Has("nnet.precision")) request.nnet.precision = ScoringPrecision(model);
  DecodeReport report;
  host.in_team([&](Team& team, int threads) { report = Decode(request, team, threads); });
  if (!report.score) {
    throw UsageError("decode.data has no transcripts (text) of what is decoded: no error rate can be measured");
  }
  const score::ErrorCounts& counts = report.score->total.counts;
  return {counts.Rate(), counts.errors(), counts.reference_length()};
}

}  // namespace antiphon::pipeline
