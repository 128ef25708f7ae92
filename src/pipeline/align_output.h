// What an alignment leaves on disk: archives of transition-ids and pdf-ids, phone and word times.
//
// Folder: ali.ark/.scp (transition-ids), pdf.ark/.scp (pdf-ids), their checksums, phones.ctm, words.ctm (UTTERANCE 1
// START DURATION LABEL, seconds); these appear whole at Close. Files of single utterances that were asked for are
// there at once: TextGrid/UTTERANCE.TextGrid, json/UTTERANCE.json. Errors: IoError.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/archive.h"
#include "hmm/aligner.h"
#include "hmm/hmm_model.h"
#include "pipeline/aligned_times.h"

namespace antiphon::pipeline {

/// UsageError unless each is a format of files of single utterances: "json", "TextGrid".
void RequireAlignFileFormats(const std::vector<std::string>& names);
/// InputError if no file can be named after the utterance.
void RequireFileName(const std::string& utt_id);

class AlignOutput {
 public:
  /// `files`: formats of the files of single utterances, that RequireAlignFileFormats lets pass.
  AlignOutput(const std::filesystem::path& folder, const hmm::HmmModel& model, const std::vector<std::string>& files);

  /// `alignment` must be ok(), and `times` be its own. The archives are without utterances that have unaligned parts.
  void Write(const std::string& utt_id, const hmm::Alignment& alignment, const AlignedTimes& times);
  void Close();

 private:
  std::filesystem::path folder_;
  const hmm::HmmModel& model_;
  std::vector<std::string> files_;
  data::TableWriter<std::vector<int32_t>> transition_ids_;
  data::TableWriter<std::vector<int32_t>> pdf_ids_;
  std::string phones_ctm_;
  std::string words_ctm_;
};

}  // namespace antiphon::pipeline
