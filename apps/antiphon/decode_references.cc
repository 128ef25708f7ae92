#include "decode_references.h"

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "chosen_weights.h"

namespace antiphon::app {

namespace fs = std::filesystem;

DecodeReferences::DecodeReferences(const fs::path& data_dir, const decode::Graph& graph)
    : graph_(graph), name_(data_dir.filename().string()) {
  if (fs::exists(data_dir / "text")) transcripts_ = score::ReadTranscripts(data_dir / "text");
}

std::vector<int32_t> DecodeReferences::Ids(const std::string& utt_id) const {
  std::vector<int32_t> ids;
  const auto found = transcripts_->words.find(utt_id);
  if (found == transcripts_->words.end()) return ids;
  for (const std::string& word : found->second) {
    const int32_t id = graph_.lexicon()->FindWord(word);
    ids.push_back(id > 0 ? id : -1);
  }
  return ids;
}

void DecodeReferences::ReportErrors(const fs::path& out, const std::function<bool(const std::string&)>& recognised,
                                    CommandContext& context, nlohmann::ordered_json& json) const {
  score::Transcripts references = *transcripts_;
  std::erase_if(references.words, [&](const auto& entry) { return !recognised(entry.first); });
  score::ScoreOptions options;
  options.missing = "skip";
  options.seed = static_cast<int64_t>(context.seed());
  score::Transcripts hypotheses = score::ReadTranscripts(out / "text");
  std::erase_if(hypotheses.words, [&](const auto& entry) { return !references.words.contains(entry.first); });
  const score::Report report = score::Score(references, hypotheses, {}, options);
  const std::string summary = score::FormatSummary(report);
  context.PrintLine(summary.substr(0, summary.size() - 1));
  json["score"] = nlohmann::ordered_json::parse(score::FormatJson(report, false));
}

void DecodeReferences::ReportWeights(const decode::WeightSearch& search, const std::vector<std::string>& utterances,
                                     const fs::path& out, CommandContext& context, nlohmann::ordered_json& json) const {
  const auto& best = search.Best();
  int64_t words = 0;
  for (const std::string& utt_id : utterances) words += static_cast<int64_t>(Ids(utt_id).size());
  const double rate = words > 0 ? static_cast<double>(best.errors) / static_cast<double>(words) : 0.0;
  const fs::path path = out / "weights.toml";
  WriteChosenWeights(path, {best.lm_weight, best.word_penalty},
                     fmt::format("chosen on {}: WER {:.2f} %", name_, 100 * rate));
  context.Print("best weights: lm-weight {}, word-penalty {}: WER {:.2f} % here; in {}", best.lm_weight,
                best.word_penalty, 100 * rate, path.string());
  if (const std::string warning = search.EdgeWarning(); !warning.empty()) log::Warn("{}", warning);
  json["best_lm_weight"] = best.lm_weight;
  json["best_word_penalty"] = best.word_penalty;
  json["best_error_rate"] = rate;
}

}  // namespace antiphon::app
