// Tables of vectors of speakers: one vector by speaker or utterance, or by utterance one for every so many frames.
//
// The latter have ivectors.toml beside them: the period in frames, and by which extractor they were made. Without it a
// table has one vector each. Shapes: vectors of R numbers; of an utterance of N frames ⌈N / period⌉ rows of them.
// Threads: const methods may run together. Errors: InputError naming table, speaker and utterance.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "data/archive.h"
#include "math/matrix.h"

namespace antiphon::data {

struct SpeakerVectorKind {
  int period = 0;         // frames per vector; 0: one vector for all
  std::string extractor;  // hmm::ExtractorChecksum; "" if unknown
};

/// What the file beside the table says.
SpeakerVectorKind ReadSpeakerVectorKind(const std::string& table);
/// Writes that file into the table's folder.
void WriteSpeakerVectorKind(const SpeakerVectorKind& kind, const std::filesystem::path& folder);

class SpeakerVectors {
 public:
  explicit SpeakerVectors(const std::string& table);

  const SpeakerVectorKind& kind() const { return kind_; }
  int dim() const;
  /// Frames first_frame … of the utterance with vectors behind them.
  Matrix Behind(const std::string& utt_id, const std::string& speaker, const Matrix& frames,
                int64_t first_frame = 0) const;

 private:
  // One row per period.
  Matrix Rows(const std::string& utt_id, const std::string& speaker) const;

  std::string table_;
  SpeakerVectorKind kind_;
  std::optional<RandomAccessReader<std::vector<float>>> vectors_;
  std::optional<RandomAccessReader<Matrix>> matrices_;
};

}  // namespace antiphon::data
