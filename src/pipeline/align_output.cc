#include "pipeline/align_output.h"

#include <map>

#include "base/error.h"
#include "base/io_error.h"

namespace antiphon::pipeline {
namespace {

namespace fs = std::filesystem;

struct FileFormat {
  const char* ending;
  std::string (*write)(const AlignedTimes& times);
};

const std::map<std::string, FileFormat>& Formats() {
  static const std::map<std::string, FileFormat> formats = {{"json", {".json", ToJson}},
                                                            {"TextGrid", {".TextGrid", ToTextGrid}}};
  return formats;
}

}  // namespace

void RequireAlignFileFormats(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (Formats().contains(name)) continue;
    Throw<UsageError>("there is no format '{}' of files for single utterances; there are json and TextGrid", name);
  }
}

void RequireFileName(const std::string& utt_id) {
  if (utt_id[0] != '.' && utt_id.find('/') == std::string::npos) return;
  Throw<InputError>("no file can be named after the utterance '{}': it may neither begin with '.' nor hold '/'",
                    utt_id);
}

AlignOutput::AlignOutput(const fs::path& folder, const hmm::HmmModel& model, const std::vector<std::string>& files)
    : folder_(folder),
      model_(model),
      files_(files),
      transition_ids_((MakeFolder(folder), folder / "ali.ark"), {.checksums = true}),
      pdf_ids_(folder / "pdf.ark", {.checksums = true}) {
  for (const std::string& format : files_) MakeFolder(folder_ / format);
}

void AlignOutput::Write(const std::string& utt_id, const hmm::Alignment& alignment, const AlignedTimes& times) {
  // Frames of speech that the text lacks have no state, and nothing can be trained on them.
  if (times.unaligned.empty()) {
    transition_ids_.Write(utt_id, alignment.transition_ids);
    pdf_ids_.Write(utt_id, model_.ToPdfs(alignment.transition_ids));
  }
  words_ctm_ += ToCtm(times, utt_id, CtmLevel::kWords);
  phones_ctm_ += ToCtm(times, utt_id, CtmLevel::kPhones);
  for (const std::string& name : files_) {
    const FileFormat& format = Formats().at(name);
    WriteFileAtomically(folder_ / name / (utt_id + format.ending), format.write(times));
  }
}

void AlignOutput::Close() {
  transition_ids_.Close();
  pdf_ids_.Close();
  WriteFileAtomically(folder_ / "phones.ctm", phones_ctm_);
  WriteFileAtomically(folder_ / "words.ctm", words_ctm_);
}

}  // namespace antiphon::pipeline
