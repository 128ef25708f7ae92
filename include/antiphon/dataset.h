// A Kaldi data directory: which utterances there are, who speaks, what is said, and their sound.
//
//   const antiphon::Dataset data("data/train");
//   for (size_t i = 0; i < data.utterances().size(); ++i) Use(data.utterances()[i].text, data.Samples(i).samples);
//
// Tables of features: antiphon/tables.h. Features with labels for training: antiphon/frame_store.h.
// Units: samples as floats in −1 … 1; seconds from the beginning of the recording. Utterances and channels count from
// 0. Ownership: copies of a Dataset share all, and moving one copies it; what utterances() refers to lives as long as
// one of them. Sound is read when it is asked for. Threads: const methods may run together.
// Errors: antiphon::Error (antiphon/error.h) naming file and line: kInput for what is damaged or does not fit together,
// kUsage for a place beyond the last utterance, kIo. Commands in wav.scp ("… |") are never run.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "antiphon/export.h"

namespace antiphon {

struct DatasetUtterance {
  std::string utt_id;
  std::string speaker;
  std::string text;       // words with blanks between; "" also where nothing is known
  bool has_text = false;  // there is a transcript, even an empty one
  std::string recording;  // its name in wav.scp
  std::string audio;      // what wav.scp says of it
  double start_s = 0.0;   // in the recording
  double end_s = -1.0;    // negative: to its end
  int channel = -1;       // from 0; −1: the only one, or the mean of all
};

struct DatasetAudio {
  std::vector<float> samples;
  int sample_rate_hz = 0;
};

class ANTIPHON_API Dataset {
 public:
  /// `audio_root`: folder that relative paths start from; "": they are looked up as `antiphon features` does.
  explicit Dataset(const std::string& folder, const std::string& audio_root = "");
  Dataset(const Dataset&) = default;
  Dataset& operator=(const Dataset&) = default;
  ~Dataset() = default;

  /// Sorted by utt_id.
  const std::vector<DatasetUtterance>& utterances() const;
  /// Sorted, each once.
  std::vector<std::string> speakers() const;
  /// Of one utterance, by its place in utterances().
  DatasetAudio Samples(size_t utterance) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace antiphon
