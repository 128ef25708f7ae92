// Features of recordings too long to be held whole: matrices of a minute each, one after another.
//
// In a folder of features (data/feature_extraction.h): long_feats.ark/.scp with the keys UTT:0, UTT:1, …, and
// utt2parts, "UTT PARTS FRAMES" per line.
//
// Shapes: one frame per row. Threads: a writer belongs to one; const methods of the reader may run together. Errors:
// those of audio, tables and text tables, naming file and utterance.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/archive.h"
#include "data/audio_source.h"
#include "feat/cmvn.h"
#include "feat/front_end.h"
#include "math/matrix.h"

namespace antiphon::data {

/// Longer recordings are stored so.
inline constexpr double kLongRecordingS = 120.0;
inline constexpr int64_t kPartFrames = 6000;

/// What was learned of a recording on the way.
struct StoredParts {
  int64_t parts = 0, frames = 0;
  double audio_s = 0.0;
  std::vector<std::pair<double, double>> zeros;  // feat::ZeroSpans::Runs
  feat::CmvnStats cmvn;
};

/// Hands audio to a sink in pieces.
using AudioPieces = std::function<void(const std::function<void(std::span<const float>)>& sink)>;
/// Hands the frames of audio that comes in pieces to `use`: kPartFrames at a time, and what remains at the end.
/// Returns the number of samples at the front end's rate. `before`: of the speaker's earlier utterances; `after` (null:
/// not wanted): with this one.
int64_t FramesInParts(const AudioPieces& audio, int rate_hz, const feat::FrontEnd& front_end, uint64_t utterance,
                      const std::function<void(Matrix&&)>& use, const feat::SpeakerMean& before = {},
                      feat::SpeakerMean* after = nullptr);

class FeaturePartsWriter {
 public:
  FeaturePartsWriter(const std::filesystem::path& folder, MatrixCoding coding);
  /// Reads the audio to its end. After an error the recording is not there.
  StoredParts Write(const std::string& utt_id, const feat::FrontEnd& front_end, feat::AudioReader& audio);
  /// Without a recording nothing is left, and files of before are removed.
  void Close();

 private:
  std::filesystem::path folder_;
  TableWriter<Matrix> table_;
  std::string index_;
};

class FeatureParts {
 public:
  explicit FeatureParts(const std::filesystem::path& folder);
  static bool AreIn(const std::filesystem::path& folder);

  struct Entry {
    int64_t parts = 0, frames = 0;
  };
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }
  /// Null if the utterance is not here.
  const Entry* Find(std::string_view utt_id) const;
  Matrix Get(std::string_view utt_id, int64_t part) const;

 private:
  std::map<std::string, Entry, std::less<>> entries_;
  RandomAccessReader<Matrix> table_;
};

}  // namespace antiphon::data
