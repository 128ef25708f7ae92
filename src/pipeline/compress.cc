#include "pipeline/compress.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/same_place.h"
#include "pipeline/bundle.h"
#include "report/text_table.h"

namespace antiphon::pipeline {
namespace {

std::vector<std::string> StageRow(const std::string& stage, const train::ModelMeasures& m,
                                  const train::ModelMeasures& before) {
  return {stage,
          fmt::format("{}", m.parameters),
          fmt::format("{}", m.bytes),
          fmt::format("{:.1f} %",
                      100.0 * static_cast<double>(m.bytes) / static_cast<double>(std::max<int64_t>(1, before.bytes))),
          fmt::format("{:.2f} %", 100 * m.frame_accuracy),
          fmt::format("{:.4f}", m.loss)};
}

}  // namespace

train::CompressionResult Compress(const CompressRequest& request, const StageHost& host) {
  if (request.out.empty()) throw UsageError("--out is missing: the folder for the compressed model");
  const std::string file = PartsAt(request.model).model;
  RequireOtherPlace(file, std::filesystem::path(request.out) / "model.safetensors", "this model");
  const auto model = std::make_shared<const nn::Model>(nn::Model::Load(file));
  const train::CompressionRun run(request.compression, model,
                                  OpenStore(request.store, request.compression.train.data.cache),
                                  OpenStore(request.held_out_store, request.compression.train.data.cache), host.seed);
  return run.Compress(request.method, request.method_options, request.out, request.optimizer);
}

std::vector<std::string> Sentences(const CompressRequest& request, const train::CompressionResult& result) {
  std::vector<std::string> sentences;
  for (const compress::Change& change : result.changes)
    sentences.push_back(fmt::format("{}: {}", change.layer, change.what));
  std::vector<std::vector<std::string>> rows = {{"", "parameters", "bytes", "of before", "frame accuracy", "loss"},
                                                StageRow("before", result.before, result.before),
                                                StageRow("compressed", result.compressed, result.before),
                                                StageRow("retrained", result.retrained, result.before)};
  if (!request.compression.retrain || request.store.empty()) rows.pop_back();
  for (const std::string& line : report::TextTable(rows)) sentences.push_back(line);
  sentences.push_back(fmt::format("model: {}", result.model.string()));
  return sentences;
}

}  // namespace antiphon::pipeline
