// What antiphon align reads where features are still to be computed: audio itself, or a data directory of it.
//
// Threads: one caller per member of a team. Errors: those of data directories and feature extraction; what cannot be
// used is left out and reported.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/options.h"
#include "data/data_dir.h"
#include "pipeline/audio_places.h"

namespace antiphon::pipeline {

struct AlignAudioOptions {
  std::string transcripts;
  std::string spelling = "lexicon";
  AudioPlaceOptions channels;
  data::DataDirOptions data_dir;
  template <class V>
  void Visit(V& v) {
    v("transcripts", transcripts,
      "of audio given as --data: a table as antiphon prepare takes it; empty: .txt, .lab or .TextGrid files beside it");
    v("spelling", spelling, OneOf{{"lexicon", "keep"}},
      "of these transcripts: words that the lexicon lacks as they stand are taken without punctuation and in its case, "
      "or all as they are");
    channels.Visit(v);
    data_dir.Visit(v);
  }
};

/// What antiphon align takes as the words of audio. `lexicon`: file whose spelling counts.
AudioTexts TextsFor(const AlignAudioOptions& options, const std::string& lexicon);

/// `data` if it has a table of features; else out/features, with those of its audio: as `model` takes them, or without
/// a model (empty) as for Gaussian mixtures, at the rate of most of the speech. Files, texts and utterances that cannot
/// be used are added to the first member's `left_out`. Collective.
std::string FeatureFolderOf(const std::string& data, const AlignAudioOptions& options, const std::string& lexicon,
                            const std::string& model, const std::filesystem::path& out, int threads, Team& team,
                            std::vector<data::DataProblem>& left_out);

}  // namespace antiphon::pipeline
