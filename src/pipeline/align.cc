#include "pipeline/align.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/io_error.h"
#include "base/log.h"
#include "base/same_place.h"
#include "data/feature_kind.h"
#include "data/script.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/align_output.h"
#include "pipeline/align_scores.h"
#include "pipeline/align_source.h"
#include "pipeline/align_with_model.h"
#include "pipeline/bundle.h"
#include "pipeline/new_words.h"
#include "pipeline/speaker_transforms.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

// By utterance.
std::unordered_map<std::string, std::string> ReasonsOf(const std::vector<hmm::UtteranceRemark>& skipped) {
  std::unordered_map<std::string, std::string> reasons;
  for (const hmm::UtteranceRemark& remark : skipped) reasons.emplace(remark.utt_id, remark.reason);
  return reasons;
}

// Whether an earlier training left the model, as that of the tables beside it.
bool IsOfEarlierTraining(const fs::path& model) {
  if (!fs::exists(model) || !fs::exists(model.parent_path() / "ali.scp")) return false;
  try {
    return IsGmm(model);
  } catch (const Error&) {
    return false;  // damaged, as whoever reads it will say
  }
}

// What an earlier run left in the folder and this one does not leave: who finds it beside the new tables would take it
// for theirs. What this run reads stays.
void ClearWhatOthersLeft(const AlignRequest& request) {
  const fs::path out(request.out);
  const data::FeatureSourceOptions& read = request.features;
  std::error_code error;
  const fs::path model = out / "model.safetensors";
  const bool reads_model = IsSamePlace(model, request.model) || IsSamePlace(model, read.speaker_model);
  if (!request.model.empty() && !reads_model && IsOfEarlierTraining(model)) {
    const fs::path aside = model.string() + ".old";  // others may still need it
    fs::rename(model, aside, error);
    if (error) ThrowIo("rename", model, error.value());
    log::Warn("'{}' is '{}' now: it belongs to the tables of an earlier training, which are written anew",
              model.string(), aside.string());
  }
  if (!read.speaker_transforms.empty()) {
    const fs::path table = data::ParseTableName(read.speaker_transforms).path;
    if (IsSamePlace(table, out / "fmllr.scp") || IsSamePlace(table, out / "fmllr.ark")) return;
  }
  for (const char* name : {"fmllr.scp", "fmllr.ark", "fmllr.checksums.json"}) {
    fs::remove(out / name, error);
    if (error) ThrowIo("remove", out / name, error.value());
  }
}

// The utterances that gave an alignment as tables and times, how well each fits its words; returns when all files are
// there. Those whose text turns out to be wrong are skipped in `result`, too. `frame_shift_s`: of the alignments'
// frames; `finer`: their phones in frames of the features, if they have other ones.
std::vector<AlignScore> WriteAlignments(const AlignRequest& request, const AlignSource& source,
                                        const hmm::Lexicon& lexicon, const hmm::HmmModel& hmm,
                                        hmm::GmmTrainingResult& result, double frame_shift_s,
                                        const std::vector<std::vector<hmm::AlignedPhone>>& finer = {}) {
  ClearWhatOthersLeft(request);
  AlignOutput output(request.out, hmm, request.files);
  const std::unordered_map<std::string, std::string> reasons = ReasonsOf(result.report.skipped);
  std::vector<AlignedUtterance> utterances;
  for (size_t i = 0; i < source.size(); ++i) {
    const hmm::Alignment& alignment = result.alignments[i];
    if (!alignment.ok()) {
      const auto reason = reasons.find(source.Id(i));
      utterances.push_back({source.Id(i), {}, reason == reasons.end() ? "no alignment" : reason->second});
      continue;
    }
    const FinePhones fine{finer.empty() ? std::span<const hmm::AlignedPhone>() : finer[i], source.frame_shift_s()};
    AlignedTimes times = TimesOf(alignment, hmm, lexicon, result.words[i], frame_shift_s, fine);
    if (std::string why = WhyTextIsWrong(times); !why.empty()) {
      result.report.skipped.push_back({source.Id(i), why});
      utterances.push_back({source.Id(i), {}, std::move(why)});
      continue;
    }
    output.Write(source.Id(i), alignment, times);
    utterances.push_back({source.Id(i), std::move(times), "", source.Zeros(i)});
  }
  output.Close();
  if (!result.fmllr.empty()) pipeline::WriteSpeakerTransforms(result.fmllr, request.out);
  std::vector<AlignScore> scores = ScoreAlignments(utterances);
  WriteFileAtomically(fs::path(request.out) / "scores.tsv", ToTable(scores));
  WriteFileAtomically(fs::path(request.out) / "unaligned.tsv", UnalignedTable(utterances));
  return scores;
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

// The lexicon with pronunciations of the transcripts' words that it lacks, if there is a model for them; the first
// member of the team writes it down, as whoever builds a graph needs it.
std::shared_ptr<const hmm::Lexicon> WithTranscriptWords(std::shared_ptr<const hmm::Lexicon> lexicon,
                                                        const AlignRequest& request, const AlignSource& source,
                                                        const Team& team, int num_threads) {
  if (request.g2p.empty()) return lexicon;
  std::vector<std::string> words;
  for (size_t i = 0; i < source.size(); ++i) words.insert(words.end(), source.Words(i).begin(), source.Words(i).end());
  const g2p::Model model = g2p::Model::Load(request.g2p);
  RequirePhones(model, *lexicon, request.g2p);
  const NewWords added = PronounceNewWords(*lexicon, words, model, {}, num_threads);
  if (team.is_first()) {
    if (!added.words.empty()) {
      log::Info("{} words that the lexicon lacks are pronounced by '{}', the first: {}", added.words.size(),
                request.g2p, added.words[0]);
    }
    for (const std::string& reason : added.refused) log::Warn("{}", reason);
    WriteFileAtomically(fs::path(request.out) / "lexicon.txt", lexicon->ToText() + added.lines);
  }
  if (added.words.empty()) return lexicon;
  return std::make_shared<const hmm::Lexicon>(WithNewWords(*lexicon, added, request.g2p));
}

// The first member of the team writes.
AlignReport Train(const AlignRequest& request, const AlignSource& source, Team& team, int num_threads) {
  const auto completed = WithTranscriptWords(
      std::make_shared<const hmm::Lexicon>(hmm::Lexicon::Load(request.lexicon, request.lexicon_options)), request,
      source, team, num_threads);
  const hmm::Lexicon& lexicon = *completed;
  CheckPronunciations(source, lexicon, request.training.map_unknown_words);
  hmm::GmmTrainingResult result = hmm::TrainGmm(
      source, lexicon, request.training, num_threads, request.seed,
      [](const std::string& line) { log::Info("{}", line); }, team);
  if (!team.is_first()) return {};
  result.model.features = source.front_end();
  AlignReport report;
  report.scores = WriteAlignments(request, source, lexicon, result.model.hmm, result, source.frame_shift_s());
  report.time_step_s = source.frame_shift_s();
  result.model.Save(fs::path(request.out) / "model.safetensors");
  report.training = std::move(result.report);
  return report;
}

// Those of `data`; statistics that nobody named are used as in the model's training, as decode and Aligner do. Null: no
// model.
data::FeatureSourceOptions TablesFor(const AlignRequest& request, const std::string& data, const AcousticModel* model) {
  data::FeatureSourceOptions tables = FindTables(data, request.features);
  if (model == nullptr || !request.features.features.empty()) return tables;
  const std::string normalisation = model->normalisation();
  if (normalisation == "none") tables.cmvn = request.features.cmvn;
  if (normalisation == "mean-variance") tables.norm_vars = true;
  return tables;
}

// The same, by the model that is named; `parts`: of the bundle that it comes from.
AlignReport AlignByModel(const AlignRequest& request, const BundleParts& parts, const AcousticModel& model,
                         const AlignSource& source, Team& team, int num_threads) {
  data::RequireFrontEnd(source.front_end(), fmt::format("'{}'", source.feature_table()), model.features(),
                        fmt::format("'{}'", request.model));
  const auto lexicon = WithTranscriptWords(LexiconOf(parts, request.lexicon, request.lexicon_options, model.hmm()),
                                           request, source, team, num_threads);
  CheckPronunciations(source, *lexicon, request.training.map_unknown_words);
  const AlignByModelOptions options{request.training, request.gaps, request.adapt, source.frame_shift_s()};
  hmm::GmmTrainingResult result = AlignWithModel(model, source, source.Sizes(), *lexicon, options, num_threads, team);
  const auto finer = FinerPhonesOf(model, source, source.Sizes(), result, options, num_threads, team);
  if (!team.is_first()) return {};
  AlignReport report;
  const double frame_shift_s = source.frame_shift_s() * model.subsampling();
  report.scores = WriteAlignments(request, source, *lexicon, model.hmm(), result, frame_shift_s, finer);
  report.time_step_s = finer.empty() ? frame_shift_s : source.frame_shift_s();
  if (model.subsampling() > 1) {
    report.times_by = finer.empty() ? "the network; Gaussians, which would find finer ones, it has not"
                                    : "the model's Gaussians, of the phones that the network found";
  }
  report.training = std::move(result.report);
  return report;
}

}  // namespace

AlignReport Align(const AlignRequest& given, Team& team, int num_threads) {
  RequireAlignFileFormats(given.files);
  const BundleParts parts = given.model.empty() ? BundleParts() : PartsAt(given.model);
  if (given.lexicon.empty()) RequireLexicon(parts);
  AlignRequest request = given;
  request.model = parts.model;
  CompleteBy(request.g2p, parts.g2p);
  std::vector<data::DataProblem> left_out;
  const std::string data =
      request.features.features.empty()
          ? FeatureFolderOf(request.data, request.audio, request.lexicon.empty() ? parts.lexicon : request.lexicon,
                            request.model, request.out, num_threads, team, left_out)
          : request.data;
  const bool of_audio = data != request.data;
  const auto start = std::chrono::steady_clock::now();
  const auto model = request.model.empty() ? nullptr : AcousticModel::Load(request.model, request.nnet);
  const AlignSource source(data, TablesFor(request, data, model.get()), request.memory_mb, num_threads);
  std::set<std::string> told;  // of audio it is known why there are none
  for (const data::DataProblem& problem : left_out) told.insert(problem.where);
  for (const std::string& utt_id : source.without_features()) {
    if (!told.contains(utt_id)) left_out.push_back({utt_id, "a transcript but no features; it is left out", false});
  }
  if (team.is_first()) WarnOf(left_out);
  for (size_t i = 0; i < source.size() && !request.files.empty(); ++i) RequireFileName(source.Id(i));
  AlignReport report = model == nullptr ? Train(request, source, team, num_threads)
                                        : AlignByModel(request, parts, *model, source, team, num_threads);
  if (!team.is_first()) return report;
  for (const hmm::UtteranceRemark& remark : report.training.skipped)
    log::Warn("{} skipped: {}", remark.utt_id, remark.reason);
  if (const std::string doubts = DoubtsIn(report); !doubts.empty()) {
    log::Warn("{}; all stand in '{}'", doubts, (fs::path(request.out) / "scores.tsv").string());
  }
  report.left_out = std::move(left_out);
  report.of_audio = of_audio;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.text = fs::path(request.out) / "report.txt";
  WriteFileAtomically(report.text, Text(report));
  WriteFileAtomically(fs::path(request.out) / "report.json", ToJson(report).dump(2) + "\n");
  return report;
}

}  // namespace antiphon::pipeline
