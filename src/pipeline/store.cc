#include "pipeline/store.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "hmm/hmm_file.h"
#include "pipeline/bundle.h"

namespace antiphon::pipeline {

StoreReport Store(const StoreRequest& request, int num_threads) {
  data::BuildFrameStoreOptions build = request.build;
  if (!request.hmm.empty()) {
    if (build.num_pdfs != 0) throw UsageError("give hmm or num-pdfs, not both");
    build.num_pdfs = hmm::LoadHmm(PartsAt(request.hmm).model).num_pdfs();
  }
  return {request.out, data::BuildFrameStore(build, request.out, num_threads)};
}

nlohmann::json ToJson(const StoreReport& report) {
  return {{"frames", report.summary.frames},
          {"utterances", report.summary.utterances},
          {"without_alignment", report.summary.without_alignment},
          {"without_recording", report.summary.without_recording}};
}

std::vector<std::string> Sentences(const StoreReport& report) {
  const data::FrameStoreSummary& summary = report.summary;
  std::vector<std::string> sentences = {
      fmt::format("{} frames of {} utterances in {}", summary.frames, summary.utterances, report.folder)};
  if (!summary.without_alignment.empty()) {
    sentences.push_back(fmt::format("{} utterances left out, because they have no alignment, the first: {}",
                                    summary.without_alignment.size(), summary.without_alignment[0]));
  }
  if (!summary.without_recording.empty()) {
    sentences.push_back(fmt::format("{} alignments left out, because there is no recording for them, the first: {}",
                                    summary.without_recording.size(), summary.without_recording[0]));
  }
  return sentences;
}

}  // namespace antiphon::pipeline
