// What was really said in the utterances that antiphon decode recognises: for choosing weights and for counting errors.
//
// Threads: const methods may run together. Errors: InputError for a text that cannot be read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "decode/graph.h"
#include "decode/weight_search.h"
#include "score/wer.h"

namespace antiphon::app {

class DecodeReferences {
 public:
  /// The text of a data directory, if it has one. `graph` must outlive this.
  DecodeReferences(const std::filesystem::path& data_dir, const decode::Graph& graph);

  bool known() const { return transcripts_.has_value(); }
  /// Word ids of an utterance; −1 for words that the graph cannot give. Empty for one without a transcript.
  std::vector<int32_t> Ids(const std::string& utt_id) const;

  /// Prints the errors of OUT/text and puts them into `json`; only utterances that could be recognised count.
  void ReportErrors(const std::filesystem::path& out, const std::function<bool(const std::string&)>& recognised,
                    CommandContext& context, nlohmann::ordered_json& json) const;
  /// Writes OUT/weights.toml, the best that `search` found, and says so.
  void ReportWeights(const decode::WeightSearch& search, const std::vector<std::string>& utterances,
                     const std::filesystem::path& out, CommandContext& context, nlohmann::ordered_json& json) const;

 private:
  const decode::Graph& graph_;
  std::string name_;  // of the data
  std::optional<score::Transcripts> transcripts_;
};

}  // namespace antiphon::app
