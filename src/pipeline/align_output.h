// What an alignment leaves on disk: archives of transition-ids and pdf-ids, phone and word times.
//
// Folder: ali.ark/.scp (transition-ids), pdf.ark/.scp (pdf-ids), their checksums, phones.ctm, words.ctm (UTTERANCE 1
// START DURATION LABEL, seconds). Everything appears whole at Close. Errors: IoError.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/archive.h"
#include "hmm/aligner.h"
#include "hmm/lexicon.h"

namespace antiphon::pipeline {

class AlignOutput {
 public:
  AlignOutput(const std::filesystem::path& folder, const hmm::HmmModel& model, double frame_shift_s);

  /// `alignment` must be ok(); `words` are the transcript as spoken.
  void Write(const std::string& utt_id, const hmm::Alignment& alignment, const std::vector<std::string>& words);
  void Close();

  /// Frames per pdf-id so far.
  const std::vector<double>& pdf_counts() const { return pdf_counts_; }

 private:
  std::filesystem::path folder_;
  const hmm::HmmModel& model_;
  double frame_shift_s_;
  data::TableWriter<std::vector<int32_t>> transition_ids_;
  data::TableWriter<std::vector<int32_t>> pdf_ids_;
  std::string phones_ctm_;
  std::string words_ctm_;
  std::vector<double> pdf_counts_;
};

}  // namespace antiphon::pipeline
