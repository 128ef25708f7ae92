// The files that `antiphon decode` leaves; docs/reference/formats.md describes them.
//
// text, words.ctm, phones.ctm, results.jsonl; if asked for nbest.txt, lattices.gz, written. All appear, whole,
// at Close.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/file.h"
#include "decode/graph/graph.h"
#include "decode/search/recognize.h"
#include "hmm/hmm_model.h"
#include "written/written_form.h"

namespace antiphon::pipeline {

struct DecodeOutputOptions {
  double frame_shift_s = 0.01;
  bool lattices = true;
  bool nbest = false;
  decode::LatticeWeights weights;
  std::shared_ptr<const written::WrittenForm> written = nullptr;  // null: not asked for
};

/// What one utterance adds to each file; made on the threads that decode.
struct DecodeEntry {
  std::string text, words_ctm, phones_ctm, json, nbest, lattice, written;
  template <class V>
  void VisitFields(V& v) {
    for (std::string* part : {&text, &words_ctm, &phones_ctm, &json, &nbest, &lattice, &written}) v(*part);
  }
};

/// Makes them; may run on several threads.
class DecodeFormat {
 public:
  DecodeFormat(const decode::Graph& graph, const hmm::HmmModel& model, const DecodeOutputOptions& options)
      : graph_(graph), model_(model), options_(options) {}
  /// `lattice`: what lattices.gz gets; empty: the recognition's.
  DecodeEntry Format(const std::string& utt_id, const decode::Recognition& recognition, std::string lattice = {}) const;
  const DecodeOutputOptions& options() const { return options_; }

 private:
  void AddWritten(const std::string& utt_id, const decode::Recognition& recognition, DecodeEntry& entry,
                  nlohmann::ordered_json& json) const;

  const decode::Graph& graph_;
  const hmm::HmmModel& model_;
  DecodeOutputOptions options_;
};

class DecodeOutput {
 public:
  DecodeOutput(const DecodeOutputOptions& options, const std::filesystem::path& folder);

  void Write(const DecodeEntry& entry);
  void Close();

 private:
  AtomicFile text_, words_ctm_, phones_ctm_, json_;
  std::unique_ptr<AtomicFile> nbest_, lattices_, written_;
};

}  // namespace antiphon::pipeline
