#include "antiphon/compressor.h"

#include "api/cancel.h"
#include "api/host_alone.h"
#include "api/request_check.h"
#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/error.h"
#include "pipeline/compress.h"

namespace antiphon {
namespace {

CompressionStage Describe(const train::ModelMeasures& m) { return {m.parameters, m.bytes, m.loss, m.frame_accuracy}; }

pipeline::CompressRequest RequestOf(const CompressorSettings& settings) {
  const Config config = Config::Parse(settings.config, "(compression)");
  auto request = ReadOptions<pipeline::CompressRequest>(config, pipeline::CompressTables());
  const std::pair<const std::string&, std::string&> given[] = {{settings.model, request.model},
                                                               {settings.method, request.method},
                                                               {settings.out, request.out},
                                                               {settings.frame_store, request.store},
                                                               {settings.held_out_store, request.held_out_store}};
  for (const auto& [setting, option] : given) {
    if (!setting.empty()) option = setting;
  }
  if (request.method.empty()) throw UsageError("a compression needs a method: svd, prune, quantize …");
  pipeline::TakeTables(config, request);
  return request;
}

}  // namespace

Compressor::Compressor(CompressorSettings settings) : settings_(std::move(settings)) {
  const pipeline::CompressRequest request = RequestOf(settings_);
  CheckMethod("compression", request.method, request.method_options);
  CheckOptimizer(request.optimizer);
  if (!request.model.empty()) CheckModelFile(request.model);
}

CompressionOutcome Compressor::Run() {
  const pipeline::CompressRequest request = RequestOf(settings_);
  if (request.model.empty() || request.out.empty()) throw UsageError("a compression needs a model and a folder (out)");
  const CancelScope scope(CancelTokenAccess::Flag(settings_.cancel));
  ThrowIfCancelled("compressing");
  const pipeline::StageHost host = HostAlone(settings_.seed, settings_.threads);
  const ComputeThreadsScope compute(host.threads);
  const train::CompressionResult result = pipeline::Compress(request, host);
  return {.model_file = result.model.string(),
          .before = Describe(result.before),
          .compressed = Describe(result.compressed),
          .retrained = Describe(result.retrained)};
}

}  // namespace antiphon
