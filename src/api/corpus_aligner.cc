#include "api/corpus_aligner.h"

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
#include "pipeline/align.h"
#include "pipeline/align_check.h"

namespace antiphon {
namespace {

pipeline::AlignRequest RequestOf(const CorpusAlignerSettings& settings) {
  auto request = ReadOptions<pipeline::AlignRequest>(Config::Parse(settings.config, "(alignment)"));
  const std::pair<const std::string&, std::string&> given[] = {
      {settings.data, request.data},       {settings.model, request.model},
      {settings.lexicon, request.lexicon}, {settings.transcripts, request.audio.transcripts},
      {settings.g2p, request.g2p},         {settings.out, request.out}};
  for (const auto& [setting, option] : given) {
    if (!setting.empty()) option = setting;
  }
  request.seed = settings.seed;
  return request;
}

std::vector<CorpusRemark> Describe(const std::vector<data::DataProblem>& problems) {
  std::vector<CorpusRemark> remarks;
  for (const data::DataProblem& problem : problems) remarks.push_back({problem.where, problem.what, problem.fatal});
  return remarks;
}

template <class Counts>
std::vector<UnknownWord> UnknownWordsOf(const Counts& counts) {
  std::vector<UnknownWord> words;
  for (const auto& [word, count] : counts) words.push_back({word, count});
  return words;
}

AlignmentOutcome Describe(const pipeline::AlignReport& report, const pipeline::AlignRequest& request) {
  const hmm::GmmTrainingReport& training = report.training;
  const std::filesystem::path out = request.out;
  AlignmentOutcome outcome{.utterances = training.utterances,
                           .aligned = training.utterances - std::ssize(training.skipped),
                           .frames = training.frames,
                           .log_likelihood = training.final_log_likelihood,
                           .time_step_s = report.time_step_s,
                           .wall_s = report.seconds,
                           .partial = report.is_partial(),
                           .left_out = Describe(report.left_out),
                           .skipped = {},
                           .suspicious = {},
                           .unknown_words = UnknownWordsOf(training.unknown_words),
                           .model_file = request.model.empty() ? (out / "model.safetensors").string() : "",
                           .words_file = (out / "words.ctm").string(),
                           .phones_file = (out / "phones.ctm").string(),
                           .report_file = report.text.string(),
                           .report = ToJson(report).dump()};
  for (const hmm::UtteranceRemark& remark : training.skipped) {
    outcome.skipped.push_back({remark.utt_id, remark.reason});
  }
  for (const pipeline::AlignScore& score : report.scores) {
    if (score.suspicious()) outcome.suspicious.push_back({score.utt_id, score.remark});
  }
  return outcome;
}

}  // namespace

CorpusAligner::CorpusAligner(const CorpusAlignerSettings& settings) {
  Impl impl{
      .request = RequestOf(settings), .host = HostAlone(settings.seed, settings.threads), .cancel = settings.cancel};
  const pipeline::AlignRequest& request = impl.request;
  if (request.data.empty() || request.out.empty()) impl.missing = "an alignment needs data and a folder (out)";
  if (!request.model.empty()) CheckModelFile(request.model);
  impl_ = std::make_shared<const Impl>(std::move(impl));
}

CorpusAligner::CorpusAligner(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

AlignmentOutcome CorpusAligner::Run() const {
  const pipeline::StageHost& host = impl_->host;
  if (!impl_->missing.empty()) throw UsageError(impl_->missing);
  const CancelScope scope(CancelTokenAccess::Flag(impl_->cancel));
  const ComputeThreadsScope compute(host.threads);
  AlignmentOutcome outcome;
  host.in_team([&](Team& team, int threads) {
    ThrowIfCancelled("aligning");
    const pipeline::AlignReport report = pipeline::Align(impl_->request, team, threads);
    if (!team.is_first()) return;
    outcome = Describe(report, impl_->request);
    host.say(pipeline::Sentence(report));
  });
  return outcome;
}

CorpusCheck CorpusAligner::Check() const {
  const CancelScope scope(CancelTokenAccess::Flag(impl_->cancel));
  const ComputeThreadsScope compute(impl_->host.threads);
  ThrowIfCancelled("looking at the data");
  const pipeline::AlignCheck check = pipeline::CheckAlignment(impl_->request, impl_->host.threads);
  return {.utterances = check.utterances,
          .speech_s = check.seconds,
          .problems = Describe(check.problems),
          .unknown_words = UnknownWordsOf(check.unknown),
          .pronounced = check.pronounced,
          .text = pipeline::Text(check),
          .report = ToJson(check).dump()};
}

CorpusAligner CorpusAlignerAccess::Make(pipeline::AlignRequest request, pipeline::StageHost host) {
  request.seed = host.seed;
  return CorpusAligner(std::make_shared<const CorpusAligner::Impl>(
      CorpusAligner::Impl{.request = std::move(request), .host = std::move(host)}));
}

}  // namespace antiphon
