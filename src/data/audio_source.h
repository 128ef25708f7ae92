// The sound of a data directory's recordings and utterances, whatever their references are: files, WAVs inside
// archives, commands.
//
// Units: samples on the scale of 16-bit integers. Threads: const methods may run together. Errors: InputError naming
// wav.scp:line, recording and utterance; a command that fails is an error with its exit status.
#pragma once

#include <memory>

#include "data/data_dir.h"
#include "feat/audio.h"

namespace antiphon::data {

class AudioSource {
 public:
  /// `dir` must outlive the source.
  explicit AudioSource(const DataDir& dir);
  ~AudioSource();

  /// The header of a recording (a command is run for it).
  feat::AudioInfo Probe(const Recording& recording) const;
  feat::Waveform Read(const Recording& recording, const feat::AudioSelection& selection = {}) const;
  /// The segment of an utterance, of its channel if it names one, else of `channel` (−1: the mean). What a command
  /// wrote is kept until another command's recording is asked for. Of a file that only ffmpeg reads, segments that
  /// begin late come from a copy in the folder for temporary files (feat::UnpackedSound), kept in the same way.
  feat::Waveform Read(const Utterance& utterance, int channel = -1) const;

  /// The same in pieces.
  struct Stream {
    std::shared_ptr<const void> holder;  // of what the reader reads, if that is no file of the data directory
    feat::AudioReader reader;
  };
  Stream Open(const Utterance& utterance, int channel = -1) const;
  /// Whether these two take the utterance from such a copy of a whole file.
  bool Unpacks(const Utterance& utterance) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace antiphon::data
