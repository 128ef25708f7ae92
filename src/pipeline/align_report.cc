#include "pipeline/align_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace antiphon::pipeline {
namespace {

using OrderedJson = nlohmann::ordered_json;

void DescribeTraining(const hmm::StageReport& stage, std::string* text) {
  *text += fmt::format("\nstage {}: {} tied states, {} Gaussians, {:.1f} s\n", stage.stage, stage.pdfs, stage.gaussians,
                       stage.seconds);
  if (stage.tree.num_splits > 0) {
    *text += fmt::format("  tree: {} splits gain {:.3f} nats per frame, {} leaves tied again lose {:.3f}\n",
                         stage.tree.num_splits, stage.tree.gain / stage.tree.num_frames, stage.tree.num_tied,
                         stage.tree.tying_loss / stage.tree.num_frames);
  }
  *text += "  iteration  log-likelihood  Gaussians  remarks\n";
  for (const hmm::IterationReport& it : stage.iterations) {
    *text += fmt::format("  {:9}  {:14.4f}  {:9}", it.iteration, it.log_likelihood, it.gaussians);
    if (it.realigned) *text += fmt::format("  realigned, {} with the retry beam, {} failed", it.retried, it.failed);
    if (it.transform_gain != 0) *text += fmt::format("  transform gains {:.4f}", it.transform_gain);
    *text += "\n";
  }
}

OrderedJson JsonOf(const hmm::StageReport& stage) {
  OrderedJson iterations = OrderedJson::array();
  for (const hmm::IterationReport& it : stage.iterations) {
    iterations.push_back({{"iteration", it.iteration},
                          {"log_likelihood", it.log_likelihood},
                          {"gaussians", it.gaussians},
                          {"realigned", it.realigned},
                          {"retried", it.retried},
                          {"failed", it.failed},
                          {"transform_gain", it.transform_gain}});
  }
  return {{"stage", stage.stage},
          {"pdfs", stage.pdfs},
          {"gaussians", stage.gaussians},
          {"seconds", stage.seconds},
          {"iterations", std::move(iterations)}};
}

void DescribeRemarks(const std::string& title, const std::vector<hmm::UtteranceRemark>& remarks, std::string* text) {
  if (remarks.empty()) return;
  *text += fmt::format("\n{} ({}):\n", title, remarks.size());
  for (const hmm::UtteranceRemark& remark : remarks) *text += fmt::format("  {}: {}\n", remark.utt_id, remark.reason);
}

std::vector<hmm::UtteranceRemark> PlacesToListenTo(const AlignReport& report) {
  std::vector<hmm::UtteranceRemark> remarks;
  for (const AlignScore& score : report.scores) {
    if (score.suspicious()) remarks.push_back({score.utt_id, score.remark});
  }
  return remarks;
}

}  // namespace

std::string Text(const AlignReport& report) {
  const hmm::GmmTrainingReport& training = report.training;
  std::string text = fmt::format(
      "{} utterances, {:.0f} frames aligned, {} utterances skipped, {} aligned with the retry beam, {:.1f} s\n",
      training.utterances, training.frames, training.skipped.size(), training.retried.size(), report.seconds);
  text += fmt::format("final log-likelihood {:.4f} nats per frame\n", training.final_log_likelihood);
  text += fmt::format("times in steps of {:.0f} ms{}\n", 1000 * report.time_step_s,
                      report.times_by.empty() ? "" : ", by " + report.times_by);
  for (const hmm::StageReport& stage : training.stages) DescribeTraining(stage, &text);
  if (!report.left_out.empty()) {
    text += fmt::format("\nleft out ({}):\n", report.left_out.size());
    for (const data::DataProblem& problem : report.left_out) {
      text += fmt::format("  {}: {}\n", problem.where, problem.what);
    }
  }
  DescribeRemarks("skipped utterances", training.skipped, &text);
  DescribeRemarks("utterances that needed the retry beam", training.retried, &text);
  DescribeRemarks("utterances to listen to (all measures: scores.tsv)", PlacesToListenTo(report), &text);
  if (!training.unknown_words.empty()) {
    text += fmt::format("\nwords without pronunciation ({}):\n", training.unknown_words.size());
    for (const auto& [word, count] : training.unknown_words) text += fmt::format("  {} {}\n", word, count);
  }
  return text;
}

nlohmann::ordered_json ToJson(const AlignReport& report) {
  const hmm::GmmTrainingReport& training = report.training;
  OrderedJson stages = OrderedJson::array();
  for (const hmm::StageReport& stage : training.stages) stages.push_back(JsonOf(stage));
  return {{"utterances", training.utterances},
          {"frames", training.frames},
          {"left_out", report.left_out.size()},
          {"skipped", training.skipped.size()},
          {"retried", training.retried.size()},
          {"suspicious", PlacesToListenTo(report).size()},
          {"unknown_words", training.unknown_words.size()},
          {"log_likelihood", training.final_log_likelihood},
          {"seconds", report.seconds},
          {"time_step", report.time_step_s},
          {"stages", std::move(stages)}};
}

std::string Sentence(const AlignReport& report) {
  const hmm::GmmTrainingReport& training = report.training;
  return fmt::format("{} of {} utterances aligned, log-likelihood {:.3f} per frame, {:.1f} s; see {}",
                     training.utterances - static_cast<int>(training.skipped.size()), training.utterances,
                     training.final_log_likelihood, report.seconds, report.text.string());
}

std::string DoubtsIn(const AlignReport& report) {
  std::vector<hmm::UtteranceRemark> doubts = PlacesToListenTo(report);
  std::unordered_set<std::string_view> skipped;
  for (const hmm::UtteranceRemark& remark : report.training.skipped) skipped.insert(remark.utt_id);
  std::erase_if(doubts, [&](const hmm::UtteranceRemark& doubt) { return skipped.contains(doubt.utt_id); });
  if (doubts.empty()) return "";
  return fmt::format("{} of {} aligned utterances may not say their text; the first is {} ({})", doubts.size(),
                     report.scores.size() - report.training.skipped.size(), doubts[0].utt_id, doubts[0].reason);
}

}  // namespace antiphon::pipeline
