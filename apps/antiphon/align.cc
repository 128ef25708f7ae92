// antiphon align: flat start to tied triphones, and the alignments that networks are trained on.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "align_audio.h"
#include "align_output.h"
#include "align_source.h"
#include "align_with_model.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "command.h"
#include "data/feature_kind.h"
#include "hmm/gmm_trainer.h"
#include "pipeline/speaker_transforms.h"
#include "processes.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct AlignCommandOptions {
  std::string data, lexicon, out, model;
  bool adapt = true;
  double memory_mb = 4000;
  AlignAudioOptions audio;
  data::FeatureSourceOptions features;
  hmm::LexiconOptions lexicon_options;
  hmm::GmmTrainingOptions training;
  infer::NnetScorerOptions nnet;

  template <class V>
  void Visit(V& v) {
    v("data", data,
      "folder with text, utt2spk and (from antiphon features) feats.scp and cmvn.scp; or a data directory, or audio (a "
      "file or a folder, with --transcripts), whose features are computed");
    v("lexicon", lexicon, "pronunciations: WORD PHONE … per line");
    v("out", out, "folder for model.safetensors, ali.scp, pdf.scp, phones.ctm, words.ctm and report.txt");
    v("model", model, "align by this model (GMM or network) instead of training one");
    v("adapt", adapt, "with --model: estimate and use speakers' transforms if the model is trained for it");
    v("memory-mb", memory_mb, Range{0, 1e9}, "features up to this size are kept in memory");
    audio.Visit(v);
    features.Visit(v);
    v.Group("lexicon-options", lexicon_options);
    training.Visit(v);
    v.Group("nnet", nnet);
  }
};

void DescribeStage(const hmm::StageReport& stage, std::string* text, Json* json) {
  *text += fmt::format("\nstage {}: {} tied states, {} Gaussians, {:.1f} s\n", stage.stage, stage.pdfs, stage.gaussians,
                       stage.seconds);
  if (stage.tree.num_splits > 0) {
    *text += fmt::format("  tree: {} splits gain {:.3f} nats per frame, {} leaves tied again lose {:.3f}\n",
                         stage.tree.num_splits, stage.tree.gain / stage.tree.num_frames, stage.tree.num_tied,
                         stage.tree.tying_loss / stage.tree.num_frames);
  }
  *text += "  iteration  log-likelihood  Gaussians  remarks\n";
  Json iterations = Json::array();
  for (const hmm::IterationReport& it : stage.iterations) {
    *text += fmt::format("  {:9}  {:14.4f}  {:9}", it.iteration, it.log_likelihood, it.gaussians);
    if (it.realigned) *text += fmt::format("  realigned, {} with the retry beam, {} failed", it.retried, it.failed);
    if (it.transform_gain != 0) *text += fmt::format("  transform gains {:.4f}", it.transform_gain);
    *text += "\n";
    iterations.push_back({{"iteration", it.iteration},
                          {"log_likelihood", it.log_likelihood},
                          {"gaussians", it.gaussians},
                          {"realigned", it.realigned},
                          {"retried", it.retried},
                          {"failed", it.failed},
                          {"transform_gain", it.transform_gain}});
  }
  json->push_back({{"stage", stage.stage},
                   {"pdfs", stage.pdfs},
                   {"gaussians", stage.gaussians},
                   {"seconds", stage.seconds},
                   {"iterations", std::move(iterations)}});
}

void DescribeRemarks(const std::string& title, const std::vector<hmm::UtteranceRemark>& remarks, std::string* text) {
  if (remarks.empty()) return;
  *text += fmt::format("\n{} ({}):\n", title, remarks.size());
  for (const hmm::UtteranceRemark& remark : remarks) *text += fmt::format("  {}: {}\n", remark.utt_id, remark.reason);
}

void WriteReport(const hmm::GmmTrainingReport& report, double seconds, const fs::path& out, CommandContext& context) {
  std::string text = fmt::format(
      "{} utterances, {:.0f} frames aligned, {} utterances skipped, {} aligned with the retry beam, {:.1f} s\n",
      report.utterances, report.frames, report.skipped.size(), report.retried.size(), seconds);
  text += fmt::format("final log-likelihood {:.4f} nats per frame\n", report.final_log_likelihood);
  Json stages = Json::array();
  for (const hmm::StageReport& stage : report.stages) DescribeStage(stage, &text, &stages);
  DescribeRemarks("skipped utterances", report.skipped, &text);
  DescribeRemarks("utterances that needed the retry beam", report.retried, &text);
  if (!report.unknown_words.empty()) {
    text += fmt::format("\nwords without pronunciation ({}):\n", report.unknown_words.size());
    for (const auto& [word, count] : report.unknown_words) text += fmt::format("  {} {}\n", word, count);
  }
  WriteFileAtomically(out / "report.txt", text);
  const Json json = {{"utterances", report.utterances},
                     {"frames", report.frames},
                     {"skipped", report.skipped.size()},
                     {"retried", report.retried.size()},
                     {"unknown_words", report.unknown_words.size()},
                     {"log_likelihood", report.final_log_likelihood},
                     {"seconds", seconds},
                     {"stages", std::move(stages)}};
  WriteFileAtomically(out / "report.json", json.dump(2) + "\n");
  context.SetResult(json.dump());
  context.Print("{} of {} utterances aligned, log-likelihood {:.3f} per frame, {:.1f} s; see {}",
                report.utterances - static_cast<int>(report.skipped.size()), report.utterances,
                report.final_log_likelihood, seconds, (out / "report.txt").string());
}

// The transcript as the alignment says it: unknown words as <UNK>.
std::vector<std::string> SpokenWords(const hmm::Lexicon& lexicon, const hmm::WordIds& words) {
  std::vector<std::string> names;
  for (const int32_t id : words.ids) names.push_back(lexicon.Word(id));
  return names;
}

// The utterances that gave an alignment as tables and times; returns when all files are there.
void WriteAlignments(const AlignSource& source, const hmm::Lexicon& lexicon, const hmm::HmmModel& hmm,
                     const hmm::GmmTrainingResult& result, const fs::path& out) {
  AlignOutput output(out, hmm, source.frame_shift_s());
  for (size_t i = 0; i < source.size(); ++i) {
    if (result.alignments[i].ok())
      output.Write(source.Id(i), result.alignments[i], SpokenWords(lexicon, result.words[i]));
  }
  output.Close();
  if (!result.fmllr.empty()) pipeline::WriteSpeakerTransforms(result.fmllr, out);
}

// Words without pronunciation do not stop the alignment, but whoever has them must hear of it; transcripts that are
// mostly such words belong to another lexicon.
void CheckPronunciations(const AlignSource& source, const hmm::Lexicon& lexicon, bool map_unknown_words) {
  std::map<std::string, int64_t> unknown;
  int64_t running = 0, without = 0;
  for (size_t i = 0; i < source.size(); ++i) {
    for (const std::string& word : source.Words(i)) {
      ++running;
      if (lexicon.FindWord(word) > 0) continue;
      ++without;
      ++unknown[word];
    }
  }
  if (without == 0) return;
  const auto most = std::max_element(unknown.begin(), unknown.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (2 * without > running) {
    Throw<InputError>(
        "{} of {} running words of the transcripts have no pronunciation, most often '{}' ({} times): the lexicon "
        "belongs to another language or spelling",
        without, running, most->first, most->second);
  }
  const std::string& stand_in = lexicon.options().unknown_word;
  const bool mapped = map_unknown_words && lexicon.FindWord(stand_in) > 0;
  log::Warn("{} of {} running words ({} different) have no pronunciation, most often '{}' ({} times); {}", without,
            running, unknown.size(), most->first, most->second,
            mapped ? fmt::format("they are aligned as {}", stand_in) : "their utterances are left out");
}

// On every process of a team; the first one writes.
void AlignInTeam(const AlignCommandOptions& options, CommandContext& context, Team& team, int threads) {
  const auto start = std::chrono::steady_clock::now();
  const fs::path out(options.out);
  const AlignSource source(options.data, options.features, options.memory_mb, threads);
  if (!source.without_features().empty()) {
    log::Warn("{} utterances have a transcript but no features, the first: {}", source.without_features().size(),
              source.without_features()[0]);
  }
  hmm::GmmTrainingResult result;
  if (options.model.empty()) {
    const hmm::Lexicon lexicon = hmm::Lexicon::Load(options.lexicon, options.lexicon_options);
    CheckPronunciations(source, lexicon, options.training.map_unknown_words);
    result = hmm::TrainGmm(
        source, lexicon, options.training, threads, context.seed(),
        [](const std::string& line) { log::Info("{}", line); }, team);
    if (!team.is_first()) return;
    result.model.features = source.front_end();
    WriteAlignments(source, lexicon, result.model.hmm, result, out);
    result.model.Save(out / "model.safetensors");
  } else {
    const auto model = AcousticModel::Load(options.model, options.nnet);
    data::RequireFrontEnd(source.front_end(), fmt::format("'{}'", source.feature_table()), model->features(),
                          fmt::format("'{}'", options.model));
    const hmm::Lexicon lexicon = hmm::Lexicon::Load(options.lexicon, options.lexicon_options, model->hmm().phones());
    CheckPronunciations(source, lexicon, options.training.map_unknown_words);
    result = AlignWithModel(*model, source, lexicon, options.training, options.adapt, threads, team);
    if (!team.is_first()) return;
    WriteAlignments(source, lexicon, model->hmm(), result, out);
  }
  for (const hmm::UtteranceRemark& remark : result.report.skipped)
    log::Warn("{} skipped: {}", remark.utt_id, remark.reason);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  WriteReport(result.report, seconds, out, context);
}

void RunAlign(const AlignCommandOptions& options, CommandContext& context) {
  InTeam(context, [&](Team& team, int threads) {
    AlignCommandOptions with_features = options;
    if (options.features.features.empty()) {
      with_features.data = FeatureFolderOf(options.data, options.audio, options.model, options.out, threads, team);
    }
    AlignInTeam(with_features, context, team, threads);
  });
}

REGISTER_COMMAND(
    "align", AlignCommandOptions, RunAlign,
    {.summary = "train a GMM from transcribed speech and align it",
     .description = "Trains from a flat start: monophones, tied triphones, LDA+MLLT, speaker adaptation, as far as "
                    "--last-stage says. The model and the alignments of the last stage are what antiphon store and "
                    "antiphon graph take. With --model it aligns by a trained GMM or network instead.",
     .example = "antiphon align --data feats/train --lexicon lang/lexicon.txt --out exp/ali --last-stage sat\n"
                "antiphon align --model exp/net.safetensors --data feats/train --lexicon lang/lexicon.txt "
                "--out exp/ali-net\n"
                "antiphon align --model exp/net.safetensors --data recordings/ --transcripts transcripts.tsv --lexicon "
                "lang/lexicon.txt --out exp/ali-new",
     .required = {"data", "lexicon", "out"},
     .common = {"model", "last-stage", "transcripts", "channels", "features", "cmvn", "utt2spk", "adapt", "leaves",
                "gaussians", "map-unknown-words", "lexicon-options.silence-phones"}});

}  // namespace
}  // namespace antiphon::app
