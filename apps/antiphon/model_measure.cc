#include "model_measure.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/toml_text.h"
#include "infer/measure.h"

namespace antiphon::app {

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
  return {speed.frames_per_second * model.frames_per_forward, speed.weight_bytes, speed.workspace_bytes};
}

WordErrors MeasureWordErrors(const Config& decode, const std::filesystem::path& model_file, const nn::Model& model,
                             const std::filesystem::path& out, int threads) {
  Config config = Config::Parse(decode.ToToml(), decode.Where());
  config.Set("model", TomlString(model_file.string()));
  config.Set("out", TomlString(out.string()));
  config.Set("lattices", "false");
  config.Set("threads", std::to_string(threads));
  if (!config.Has("nnet.precision")) config.Set("nnet.precision", "\"" + ScoringPrecision(model) + "\"");
  std::ostringstream nowhere;
  const auto summary = nlohmann::json::parse(RunCommand("decode", config, nowhere));
  if (!summary.contains("score")) {
    throw UsageError("decode.data has no transcripts (text) to score against: no error rate can be measured");
  }
  const auto& score = summary.at("score");
  return {score.at("error_rate"), score.at("errors"), score.at("reference_length")};
}

}  // namespace antiphon::app
