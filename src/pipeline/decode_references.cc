#include "pipeline/decode_references.h"

namespace antiphon::pipeline {

namespace fs = std::filesystem;

DecodeReferences::DecodeReferences(const fs::path& data_dir, const decode::Graph& graph)
    : graph_(graph), name_(data_dir.filename().string()) {
  if (fs::exists(data_dir / "text")) transcripts_ = score::ReadTranscripts(data_dir / "text");
}

std::vector<int32_t> DecodeReferences::Ids(const std::string& utt_id) const {
  std::vector<int32_t> ids;
  for (const std::string& word : transcripts_->words.at(utt_id)) {
    const int32_t id = graph_.lexicon()->FindWord(word);
    ids.push_back(id > 0 ? id : -1);
  }
  return ids;
}

score::Report DecodeReferences::Errors(const fs::path& text, const std::function<bool(const std::string&)>& recognised,
                                       uint64_t seed) const {
  score::Transcripts references = *transcripts_;
  std::erase_if(references.words, [&](const auto& entry) { return !recognised(entry.first); });
  score::ScoreOptions options;
  options.missing = "skip";
  options.seed = static_cast<int64_t>(seed);
  score::Transcripts hypotheses = score::ReadTranscripts(text);
  std::erase_if(hypotheses.words, [&](const auto& entry) { return !references.words.contains(entry.first); });
  return score::Score(references, hypotheses, {}, options);
}

}  // namespace antiphon::pipeline
