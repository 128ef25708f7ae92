#include <algorithm>
#include <optional>

#include "base/cancel.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "data/archive.h"
#include "data/file_checksums.h"
#include "data/frame_store.h"
#include "data/live_store_build.h"

namespace antiphon::data {
namespace {

int LargestPdf(const RandomAccessReader<std::vector<int32_t>>& pdfs) {
  int32_t largest = -1;
  for (const std::string& key : pdfs.keys()) {
    for (const int32_t pdf : pdfs.Get(key)) largest = std::max(largest, pdf);
  }
  return largest;
}

void RequireOneSource(const BuildFrameStoreOptions& options) {
  const LiveStoreOptions& live = options.live;
  if (options.input.features.empty() && live.data.empty()) {
    throw UsageError("give --features, a table of features, or --live, a data directory whose recordings are read");
  }
  if (live.data.empty() &&
      (!live.front_end.empty() || live.channel >= 0 || !live.audio_root.empty() || !live.normalise)) {
    throw UsageError(
        "--front-end, --no-normalise, --channel and --audio-root belong to --live: a table's features are computed");
  }
}

void RequireUseForUnknown(const FeatureSourceOptions& input) {
  if (input.unknown_speakers == 0) return;
  if (!input.speaker_vectors.empty()) {
    throw UsageError(
        "--unknown-speakers leaves out means and transforms, not --speaker-vectors: leave one of them out");
  }
  if (input.cmvn.empty() && input.speaker_transforms.empty()) {
    throw UsageError("--unknown-speakers needs --cmvn or --speaker-transforms: nothing else is known of speakers");
  }
}

}  // namespace

namespace internal {

PdfTable::PdfTable(const BuildFrameStoreOptions& options) {
  if (!options.pdf_alignment.empty()) {
    RequireTableAsWritten(options.pdf_alignment);
    alignment.emplace(options.pdf_alignment);
  }
  if (!alignment && options.num_pdfs == 0) {
    throw UsageError("a store without alignment needs --num-pdfs, the number of the teacher's pdf-ids");
  }
  num_pdfs = options.num_pdfs > 0 ? options.num_pdfs : LargestPdf(*alignment) + 1;
  if (num_pdfs < 1) Throw<InputError>("'{}' holds no pdf-ids", options.pdf_alignment);
}

std::vector<int32_t> PdfTable::Get(const std::string& utt_id, int64_t frames, int tolerance) const {
  std::vector<int32_t> pdfs = alignment ? alignment->Get(utt_id) : std::vector<int32_t>(static_cast<size_t>(frames), 0);
  const int64_t shorter = std::min<int64_t>(frames, std::ssize(pdfs));
  if (std::max<int64_t>(frames, std::ssize(pdfs)) - shorter > tolerance) {
    Throw<InputError>(
        "{} frames of features but an alignment of {}; they were made with different frame shifts or from different "
        "audio",
        frames, pdfs.size());
  }
  pdfs.resize(static_cast<size_t>(shorter));
  return pdfs;
}

}  // namespace internal

FrameStoreSummary BuildFrameStore(const BuildFrameStoreOptions& options, const std::filesystem::path& folder,
                                  int num_threads) {
  RequireOneSource(options);
  if (!options.live.data.empty()) return internal::BuildLiveStore(options, folder, num_threads);
  RequireUseForUnknown(options.input);
  const FeatureSource features(options.input);
  const internal::PdfTable table(options);
  const auto& alignment = table.alignment;
  FrameStoreSummary summary;
  std::vector<std::string> chosen;
  for (const std::string& utt_id : features.keys()) {
    (!alignment || alignment->Has(utt_id) ? chosen : summary.without_alignment).push_back(utt_id);
  }
  if (chosen.empty() && alignment) {
    Throw<InputError>("no utterance of '{}' has an alignment in '{}'", options.input.features, options.pdf_alignment);
  }
  if (chosen.empty()) Throw<InputError>("'{}' holds no utterance", options.input.features);
  FrameStoreOptions store = options.store;
  store.labelled = alignment.has_value();
  std::optional<FrameStoreWriter> writer;
  const auto add = [&](const std::string& utt_id, const Matrix& m) {
    const std::vector<int32_t> pdfs =
        WithContext([&] { return table.Get(utt_id, m.rows(), options.length_tolerance); },
                    [&] { return fmt::format("frame store '{}', utterance '{}'", folder.string(), utt_id); });
    const auto frames = std::ssize(pdfs);
    if (!writer) writer.emplace(folder, static_cast<int>(m.cols()), table.num_pdfs, store);
    writer->Add(utt_id, features.Speaker(utt_id), m.view().Rows(0, frames), pdfs);
    ++summary.utterances;
    summary.frames += frames;
  };
  ParallelInOrder<Matrix>(
      chosen.size(), num_threads,
      [&](size_t i) {
        ThrowIfCancelled("writing a frame store");
        return features.Get(chosen[i]);
      },
      [&](size_t i, Matrix&& m) { add(chosen[i], m); });
  writer->Finish(features.kind().ToToml());
  return summary;
}

}  // namespace antiphon::data
