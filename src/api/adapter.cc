#include "antiphon/adapter.h"

#include <filesystem>
#include <memory>

#include "adapt/method.h"
#include "api/cancel.h"
#include "api/request_check.h"
#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/error.h"
#include "base/folder_lock.h"
#include "base/same_place.h"
#include "base/thread_pool.h"
#include "hmm/hmm_file.h"
#include "pipeline/bundle.h"
#include "pipeline/compress_request.h"
#include "pipeline/method_tables.h"
#include "train/adaptation.h"

namespace antiphon {
namespace {

AdaptationMeasures Describe(const train::DomainMeasures& m) { return {m.loss, m.frame_accuracy, m.frames}; }

// What the configuration of an adaptation says.
struct Request {
  train::AdaptationOptions options;
  Config keys;  // of the method
  Config optimizer;
};

Request RequestOf(const AdapterSettings& s) {
  const Config config = Config::Parse(s.config, "(adaptation)");
  auto options =
      ReadOptions<train::AdaptationOptions>(config, pipeline::TablesOfMethods<adapt::MethodRegistry>({"optimizer"}));
  options.own_held_out = train::SaysWhatIsHeldOut(config);
  Config optimizer = config.Table("optimizer");
  if (!optimizer.Has("type")) optimizer.Set("type", "\"sgd\"");
  return {std::move(options), pipeline::OptionsOfMethod<adapt::MethodRegistry>(s.method, config), optimizer};
}

}  // namespace

Adapter::Adapter(AdapterSettings settings) : settings_(std::move(settings)) {
  const Request request = RequestOf(settings_);
  CheckMethod("adaptation", settings_.method, request.keys);
  CheckOptimizer(request.optimizer);
  if (!settings_.model.empty()) CheckModelFile(settings_.model);
}

AdaptationOutcome Adapter::Run() {
  const AdapterSettings& s = settings_;
  if (s.model.empty() || s.out.empty() || s.frame_store.empty()) {
    throw UsageError("an adaptation needs a model, a frame store of other speech, and a folder (out)");
  }
  const auto [options, keys, optimizer] = RequestOf(s);
  const auto method = adapt::MethodRegistry::Get().Create(s.method, keys);
  if (method->needs_old_speech() && s.old_store.empty()) adapt::RefuseMissingOldSpeech(s.method);
  const std::string model_file = pipeline::PartsAt(s.model).model;
  const std::string hmm_file = s.hmm.empty() ? "" : pipeline::PartsAt(s.hmm).model;
  for (const char* made : {"model.safetensors", "adapted.safetensors"}) {
    for (const std::string& file : {model_file, hmm_file}) {
      RequireOtherPlace(file, std::filesystem::path(s.out) / made, "this model");
    }
  }
  const CancelScope scope(CancelTokenAccess::Flag(s.cancel));
  const ComputeThreadsScope compute(s.threads > 0 ? s.threads : NumCores());
  const auto model = std::make_shared<const nn::Model>(nn::Model::Load(model_file));
  const FolderLock lock(
      s.out, ".adaptation.lock",
      fmt::format("another adaptation is working in '{}': wait for it, or give another folder", s.out));
  train::AdaptationSpeech speech;
  const data::ShardCacheOptions& cache = options.train.data.cache;
  speech.new_store = pipeline::OpenStore(s.frame_store, cache);
  speech.held_out_store = pipeline::OpenStore(s.held_out_store, cache);
  speech.old_store = pipeline::OpenStore(s.old_store, cache);
  if (!hmm_file.empty()) speech.hmm_json = hmm::LoadHmm(hmm_file).ToJson();
  const train::AdaptationRun run(options, model, std::move(speech), s.seed);
  const train::AdaptationResult result = run.Adapt(s.method, keys, s.out, optimizer);
  return {.accepted = result.accepted,
          .verdict = result.verdict,
          .model_file = result.model.string(),
          .profile_file = result.profile.string(),
          .new_before = Describe(result.new_before),
          .new_after = Describe(result.new_after),
          .old_before = Describe(result.old_before),
          .old_after = Describe(result.old_after)};
}

}  // namespace antiphon
