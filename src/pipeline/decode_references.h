// What was really said in the utterances that a decoding recognises: for choosing weights and for counting errors.
//
// Threads: const methods may run together. Errors: InputError for a text that cannot be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "decode/graph/graph.h"
#include "score/wer.h"

namespace antiphon::pipeline {

class DecodeReferences {
 public:
  /// The text of a data directory, if it has one. `graph` must outlive this.
  DecodeReferences(const std::filesystem::path& data_dir, const decode::Graph& graph);

  bool known() const { return transcripts_.has_value(); }
  /// Name of the data.
  const std::string& name() const { return name_; }
  /// Whether it is known what was said in the utterance; that may be nothing.
  bool Has(const std::string& utt_id) const { return known() && transcripts_->words.contains(utt_id); }
  /// Word ids of an utterance that it has; −1 for words that the graph cannot give.
  std::vector<int32_t> Ids(const std::string& utt_id) const;
  /// The errors of a file of words; only utterances that could be recognised count.
  score::Report Errors(const std::filesystem::path& text,
                       const std::function<bool(const std::string& utt_id)>& recognised, uint64_t seed) const;

 private:
  const decode::Graph& graph_;
  std::string name_;
  std::optional<score::Transcripts> transcripts_;
};

}  // namespace antiphon::pipeline
