#include "antiphon/compressor.h"

#include <filesystem>

#include "api/cancel.h"
#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/error.h"
#include "base/log.h"
#include "base/same_place.h"
#include "base/thread_pool.h"
#include "pipeline/compress.h"

namespace antiphon {
namespace {

CompressionStage Describe(const train::ModelMeasures& m) { return {m.parameters, m.bytes, m.loss, m.frame_accuracy}; }

}  // namespace

Compressor::Compressor(CompressorSettings settings) : settings_(std::move(settings)) {}

CompressionOutcome Compressor::Run() {
  const Config config = Config::Parse(settings_.config, "(compression)");
  auto request = ReadOptions<pipeline::CompressRequest>(config, pipeline::CompressTables());
  const std::pair<const std::string&, std::string&> given[] = {{settings_.model, request.model},
                                                               {settings_.method, request.method},
                                                               {settings_.out, request.out},
                                                               {settings_.frame_store, request.store},
                                                               {settings_.held_out_store, request.held_out_store}};
  for (const auto& [setting, option] : given) {
    if (!setting.empty()) option = setting;
  }
  if (request.method.empty()) throw UsageError("a compression needs a method: svd, prune, quantize …");
  if (request.model.empty() || request.out.empty()) throw UsageError("a compression needs a model and a folder (out)");
  RequireOtherPlace(request.model, std::filesystem::path(request.out) / "model.safetensors", "this model");
  pipeline::TakeTables(config, request);
  const CancelScope scope(CancelTokenAccess::Flag(settings_.cancel));
  const int threads = settings_.threads > 0 ? settings_.threads : NumCores();
  const ComputeThreadsScope compute(threads);
  const pipeline::StageHost host{.threads = threads,
                                 .seed = settings_.seed,
                                 .say = [](const std::string& sentence) { log::Info("{}", sentence); },
                                 .in_team = [threads](const auto& body) { body(Team::Alone(), threads); }};
  const train::CompressionResult result = pipeline::Compress(request, host);
  return {.model_file = result.model.string(),
          .before = Describe(result.before),
          .compressed = Describe(result.compressed),
          .retrained = Describe(result.retrained)};
}

}  // namespace antiphon
