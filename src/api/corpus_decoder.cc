#include "api/corpus_decoder.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "api/cancel.h"
#include "api/host_alone.h"
#include "api/request_check.h"
#include "base/cancel.h"
#include "base/compute_threads.h"
#include "base/config.h"
#include "base/error.h"
#include "pipeline/decode.h"

namespace antiphon {
namespace {

pipeline::DecodeRequest RequestOf(const CorpusDecoderSettings& settings) {
  auto request = ReadOptions<pipeline::DecodeRequest>(Config::Parse(settings.config, "(decoding)"));
  const std::pair<const std::string&, std::string&> given[] = {{settings.model, request.model},
                                                               {settings.graph, request.graph},
                                                               {settings.data, request.data},
                                                               {settings.out, request.out},
                                                               {settings.weights, request.weights}};
  for (const auto& [setting, option] : given) {
    if (!setting.empty()) option = setting;
  }
  request.tune = request.tune || settings.tune;
  request.seed = settings.seed;
  return request;
}

WordErrors Describe(const score::Report& report) {
  const score::ErrorCounts& counts = report.total.counts;
  return {.utterances = report.total.utterances,
          .wrong_utterances = report.total.wrong_utterances,
          .words = counts.reference_length(),
          .substitutions = counts.substitutions,
          .deletions = counts.deletions,
          .insertions = counts.insertions,
          .rate = counts.Rate(),
          .interval_low = report.interval_low,
          .interval_high = report.interval_high};
}

DecodingOutcome Describe(const pipeline::DecodeReport& report, const std::filesystem::path& out) {
  DecodingOutcome outcome{.utterances = static_cast<int64_t>(report.utterances),
                          .speech_s = report.speech_seconds,
                          .cpu_s = report.cpu_seconds,
                          .wall_s = report.wall_seconds,
                          .lm_weight = 1.0 / report.weights.acoustic_scale,
                          .word_penalty = report.weights.word_penalty,
                          .risk_scale = report.weights.risk_scale,
                          .output_share = report.output_share.value_or(1.0),
                          .speaker_transforms = static_cast<int64_t>(report.speaker_transforms),
                          .errors = {},
                          .tuned = {},
                          .text_file = (out / "text").string(),
                          .results_file = (out / "results.jsonl").string(),
                          .summary_file = (out / "summary.json").string(),
                          .summary = ToJson(report).dump(2)};
  if (report.speech_seconds > 0) outcome.real_time_factor = report.cpu_seconds / report.speech_seconds;
  if (report.score) outcome.errors = Describe(*report.score);
  if (const auto& tuned = report.tuned) {
    const pipeline::ChosenWeights& weights = tuned->weights;
    outcome.tuned = {weights.lm_weight, weights.word_penalty, weights.risk_scale, tuned->error_rate,
                     tuned->file.string()};
  }
  return outcome;
}

}  // namespace

CorpusDecoder::CorpusDecoder(const CorpusDecoderSettings& settings) {
  Impl impl{
      .request = RequestOf(settings), .host = HostAlone(settings.seed, settings.threads), .cancel = settings.cancel};
  const pipeline::DecodeRequest& request = impl.request;
  if (request.model.empty() || request.data.empty() || request.out.empty()) {
    impl.missing = "a decoding needs a model, data, and a folder (out)";
  }
  if (!request.model.empty()) CheckModelFile(request.model);
  impl_ = std::make_shared<const Impl>(std::move(impl));
}

CorpusDecoder::CorpusDecoder(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

DecodingOutcome CorpusDecoder::Run() const {
  const pipeline::StageHost& host = impl_->host;
  if (!impl_->missing.empty()) throw UsageError(impl_->missing);
  const CancelScope scope(CancelTokenAccess::Flag(impl_->cancel));
  const ComputeThreadsScope compute(host.threads);
  DecodingOutcome outcome;
  host.in_team([&](Team& team, int threads) {
    ThrowIfCancelled("decoding");
    const pipeline::DecodeReport report = pipeline::Decode(impl_->request, team, threads);
    if (!team.is_first()) return;
    for (const std::string& sentence : pipeline::Sentences(report)) host.say(sentence);
    outcome = Describe(report, impl_->request.out);
  });
  return outcome;
}

CorpusDecoder CorpusDecoderAccess::Make(pipeline::DecodeRequest request, pipeline::StageHost host) {
  request.seed = host.seed;
  return CorpusDecoder(std::make_shared<const CorpusDecoder::Impl>(
      CorpusDecoder::Impl{.request = std::move(request), .host = std::move(host)}));
}

}  // namespace antiphon
