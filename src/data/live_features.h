// The features of a live store: made from its recordings whenever they are read, perhaps varied anew each time.
//
// The store's folder holds recordings/, a data directory without transcripts (paths absolute), with live.toml (the
// options below), front_end.toml, cmvn.ark (statistics of the unchanged recordings, unless nothing is normalised) and
// audio_files (size and time of change of each recording's file). An utterance "sp0.9-UTT" is UTT at that speed.
//
// Without variation the coded frames are, bit for bit, those of a store that was made from features of the same front
// end and statistics, kept without loss. Shapes: frames as FrameCoding codes them. Threads: const methods may run
// together. Errors: InputError naming file, recording and utterance: a file that is missing, changed since the store
// was made, or gives other features than then. A request to stop (base/cancel.h) ends no utterance: who reads decides.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "data/audio_source.h"
#include "data/data_dir.h"
#include "data/frame_store.h"
#include "data/frame_store_format.h"
#include "data/recording_frames.h"
#include "feat/cmvn.h"

namespace antiphon::data {

class FeatureMaker;
struct VariationOptions;

class LiveFeatures {
 public:
  struct Options {
    int channel = -1;
    bool norm_vars = false;
    template <class V>
    void Visit(V& v) {
      v("channel", channel, Range{-1, 1024}, "of recordings with several, from 0; -1: their mean");
      v("norm-vars", norm_vars, "divide by the standard deviation too");
    }
  };

  /// What changes an utterance's sound before the front end.
  using Vary = std::function<feat::Waveform(feat::Waveform, std::string_view utt_id)>;

  /// `header` names the files with their checksums. What it refers to must stay where it is.
  LiveFeatures(const std::filesystem::path& folder, const internal::StoreHeader& header,
               std::span<const FrameStore::Utterance> utterances, std::span<const std::string> speakers);

  /// The utterance's coded frames.
  std::string Make(size_t utterance, const Vary& vary = {}) const;
  const internal::FrameCoding& coding() const { return coding_; }
  /// That of all readers in this process which vary alike; as many threads as its first reader says.
  std::shared_ptr<FeatureMaker> Maker(const VariationOptions& variation, int num_threads, uint64_t seed) const;

 private:
  void ReadAudioFiles();
  void Normalise(const FrameStore::Utterance& utterance, MatrixView frames) const;
  void RequireSameFile(const Recording& recording) const;

  struct FileState {
    int64_t bytes = 0;
    int64_t changed_s = 0;
  };

  std::filesystem::path folder_;
  internal::FrameCoding coding_;
  std::span<const FrameStore::Utterance> utterances_;
  std::span<const std::string> speakers_;
  Options options_;
  DataDir dir_;
  AudioSource audio_;
  feat::FrontEnd front_end_;
  std::map<std::string, FileState> files_;             // by recording
  std::map<std::string, feat::CmvnStats> statistics_;  // by speaker or utterance; empty: nothing is normalised
  std::map<double, internal::SpeechCopy> copies_;      // by speed
  std::vector<internal::SpeechItem> items_;            // by utterance of the store
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::weak_ptr<FeatureMaker>> makers_;  // by what tells them apart
};

/// What a live store is made of.
struct LiveSetup {
  const DataDir& dir;
  std::vector<std::string> utterances;  // of `dir` that are needed, each once
  feat::FrontEndOptions front_end;
  std::map<std::string, feat::CmvnStats> statistics;
  LiveFeatures::Options options;
};
/// Writes it into `folder`; returns the files' names with their checksums. All recordings must be files.
std::map<std::string, std::string> WriteLiveSetup(const LiveSetup& setup, const std::filesystem::path& folder);

}  // namespace antiphon::data
