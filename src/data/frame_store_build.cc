#include <algorithm>
#include <optional>

#include "base/cancel.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "data/archive.h"
#include "data/frame_store.h"

namespace antiphon::data {
namespace {

int LargestPdf(const RandomAccessReader<std::vector<int32_t>>& pdfs) {
  int32_t largest = -1;
  for (const std::string& key : pdfs.keys()) {
    for (const int32_t pdf : pdfs.Get(key)) largest = std::max(largest, pdf);
  }
  return largest;
}

}  // namespace

FrameStoreSummary BuildFrameStore(const BuildFrameStoreOptions& options, const std::filesystem::path& folder,
                                  std::string_view description, int num_threads) {
  const FeatureSource features(options.input);
  const RandomAccessReader<std::vector<int32_t>> alignment(options.pdf_alignment);
  const int num_pdfs = options.num_pdfs > 0 ? options.num_pdfs : LargestPdf(alignment) + 1;
  if (num_pdfs < 1) Throw<InputError>("'{}' holds no pdf-ids", options.pdf_alignment);

  FrameStoreSummary summary;
  std::vector<std::string> aligned;
  for (const std::string& utt_id : features.keys()) {
    (alignment.Has(utt_id) ? aligned : summary.without_alignment).push_back(utt_id);
  }
  if (aligned.empty()) {
    Throw<InputError>("no utterance of '{}' has an alignment in '{}'", options.input.features, options.pdf_alignment);
  }
  std::optional<FrameStoreWriter> writer;
  const auto add = [&](const std::string& utt_id, const Matrix& m) {
    const std::vector<int32_t> pdfs = alignment.Get(utt_id);
    const int64_t frames = std::min<int64_t>(m.rows(), std::ssize(pdfs));
    if (std::max<int64_t>(m.rows(), std::ssize(pdfs)) - frames > options.length_tolerance) {
      Throw<InputError>(
          "frame store '{}', utterance '{}': {} frames of features but an alignment of {}; they were made with "
          "different frame shifts or from different audio",
          folder.string(), utt_id, m.rows(), pdfs.size());
    }
    if (!writer) writer.emplace(folder, static_cast<int>(m.cols()), num_pdfs, options.store);
    writer->Add(utt_id, features.Speaker(utt_id), m.view().Rows(0, frames),
                std::span(pdfs).first(static_cast<size_t>(frames)));
    ++summary.utterances;
    summary.frames += frames;
  };
  ParallelInOrder<Matrix>(
      aligned.size(), num_threads,
      [&](size_t i) {
        ThrowIfCancelled("writing a frame store");
        return features.Get(aligned[i]);
      },
      [&](size_t i, Matrix&& m) { add(aligned[i], m); });
  writer->Finish(description);
  return summary;
}

}  // namespace antiphon::data
