#include "pipeline/align_output.h"

#include <fmt/format.h>

#include "base/io_error.h"

namespace antiphon::pipeline {

AlignOutput::AlignOutput(const std::filesystem::path& folder, const hmm::HmmModel& model, double frame_shift_s)
    : folder_(folder),
      model_(model),
      frame_shift_s_(frame_shift_s),
      transition_ids_((MakeFolder(folder), folder / "ali.ark"), {.checksums = true}),
      pdf_ids_(folder / "pdf.ark", {.checksums = true}),
      pdf_counts_(static_cast<size_t>(model.num_pdfs())) {}

void AlignOutput::Write(const std::string& utt_id, const hmm::Alignment& alignment,
                        const std::vector<std::string>& words) {
  const std::vector<int32_t> pdfs = model_.ToPdfs(alignment.transition_ids);
  for (const int32_t pdf : pdfs) pdf_counts_[static_cast<size_t>(pdf)] += 1;
  transition_ids_.Write(utt_id, alignment.transition_ids);
  pdf_ids_.Write(utt_id, pdfs);
  const auto line = [&](std::string& ctm, int begin, int end, const std::string& label) {
    ctm +=
        fmt::format("{} 1 {:.3f} {:.3f} {}\n", utt_id, begin * frame_shift_s_, (end - begin) * frame_shift_s_, label);
  };
  for (size_t p = 0; p < alignment.phones.size();) {
    const int32_t word = alignment.phones[p].word_position;
    const int begin = alignment.phones[p].begin_frame;
    int end = begin;
    do {
      const hmm::AlignedPhone& phone = alignment.phones[p];
      end = phone.begin_frame + phone.num_frames;
      line(phones_ctm_, phone.begin_frame, end, model_.phones().Name(phone.phone));
      ++p;
    } while (word >= 0 && p < alignment.phones.size() && alignment.phones[p].word_position == word);
    if (word >= 0) line(words_ctm_, begin, end, words[static_cast<size_t>(word)]);
  }
}

void AlignOutput::Close() {
  transition_ids_.Close();
  pdf_ids_.Close();
  WriteFileAtomically(folder_ / "phones.ctm", phones_ctm_);
  WriteFileAtomically(folder_ / "words.ctm", words_ctm_);
}

}  // namespace antiphon::pipeline
