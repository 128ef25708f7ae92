// Making a live store: recordings, their speakers' statistics and pdf-ids (data/live_features.h).
//
// Threads: one caller; recordings are read on several. Errors: UsageError for options that a live store has no use for;
// InputError listing the recordings that cannot be read or do not fit their alignments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/archive.h"
#include "data/frame_store.h"

namespace antiphon::data::internal {

/// The pdf-ids that a store is made with.
struct PdfTable {
  explicit PdfTable(const BuildFrameStoreOptions& options);
  /// Of an utterance of so many frames; the shorter one counts, InputError if they differ by more than `tolerance`.
  /// Zeros without an alignment.
  std::vector<int32_t> Get(const std::string& utt_id, int64_t frames, int tolerance) const;

  std::optional<RandomAccessReader<std::vector<int32_t>>> alignment;
  int num_pdfs = 0;
};

FrameStoreSummary BuildLiveStore(const BuildFrameStoreOptions& options, const std::filesystem::path& folder,
                                 int num_threads);

}  // namespace antiphon::data::internal
