// Features of every utterance of a data directory, with augmented copies if asked for.
//
// Writes into a folder: feats.ark/.scp (one frame per row), cmvn.ark/.scp (Kaldi's statistics, per speaker), text,
// utt2spk, spk2utt of what was written, front_end.toml (what was computed, with the sampling rate found), utt2noise
// if noise was added (which kind, or "clean"), utt2zeros if some hold nothing but zeros somewhere (begin and end of
// each run in seconds), and failed.txt if utterances were left out. With long_in_parts, long recordings are stored as
// data/feature_parts.h says instead of in feats.ark, and none is held in memory whole. Copies are utterances and
// speakers of their own: "sp0.9-UTT" of "sp0.9-SPEAKER" for another speed, "aug1-UTT" of "aug1-SPEAKER" for other
// variations.
//
// Threads: utterances are computed on several; the result does not depend on how many. Errors: InputError that lists
// what is wrong with which utterance; nothing is written then.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/team.h"
#include "data/data_dir.h"
#include "feat/augment.h"
#include "feat/front_end.h"

namespace antiphon::data {

struct FeatureExtractionOptions {
  feat::FrontEndOptions front_end;
  std::string like;
  bool native_rate = false;
  int channel = -1;
  std::string coding = "columns8";
  std::string on_error = "fail";
  std::vector<double> speeds;
  double volume_low = 1.0;
  double volume_high = 1.0;
  int augmented_copies = 0;
  bool originals = true;
  feat::AugmentOptions augment;
  // For callers, not a person's options.
  bool silent_recordings = true;  // false: recordings in which nothing is heard cannot be computed
  bool usual_rate = false;        // the front end's rate becomes the usual one of RateOfData
  bool for_model = false;         // the front end is that of a trained model
  bool long_in_parts = false;     // recordings of more than kLongRecordingS are stored as FeatureParts

  template <class V>
  void Visit(V& v) {
    front_end.Visit(v);
    v("like", like, "take the front end from the front_end.toml of this folder, so that test data fit a model");
    v("native-rate", native_rate,
      "sample-rate becomes the lowest of the recordings; otherwise they are resampled to it");
    v("channel", channel, Range{-1, 1024}, "of recordings with several, from 0; -1: their mean");
    v("coding", coding, OneOf{{"plain", "columns8", "global16", "global8"}}, "how feats.ark is compressed");
    v("on-error", on_error, OneOf{{"fail", "skip"}},
      "utterances that cannot be computed: refuse all, or leave them out");
    v("speeds", speeds, Range{0.1, 10.0}, "further copies at these speeds, e.g. [0.9, 1.1]");
    v("volume-low", volume_low, Range{1e-3, 1e3},
      "least gain of an utterance; each draws its own, copies at other speeds too (published: 0.125 to 2)");
    v("volume-high", volume_high, Range{1e-3, 1e3}, "largest gain");
    v("augmented-copies", augmented_copies, Range{0, 1000}, "further copies varied as [augment] says");
    v("originals", originals, "the unchanged recordings themselves");
    v.Group("augment", augment);
  }
};

struct FeatureExtractionResult {
  int64_t utterances = 0;  // written, copies included
  int64_t frames = 0;
  int dim = 0;
  int sample_rate_hz = 0;
  double audio_s = 0.0;
  int64_t resampled = 0;                                    // utterances whose recording had another rate
  int64_t channels_mixed = 0;                               // utterances that are the mean of several channels
  std::vector<std::pair<std::string, std::string>> failed;  // utterance, why
};

/// `progress` is called with the number of utterances done and their total. Of a team, the first member writes and gets
/// the whole result; all return when everything is written.
FeatureExtractionResult ExtractFeatures(const DataDir& dir, const FeatureExtractionOptions& options,
                                        const std::filesystem::path& out, int num_threads,
                                        const std::function<void(int64_t, int64_t)>& progress = {},
                                        Team& team = Team::Alone());

/// The front end that a feature folder's front_end.toml describes.
feat::FrontEndOptions ReadFrontEnd(const std::filesystem::path& folder);

/// Of an utterance or speaker, the one that it is a copy of (for "sp0.9-UTT" and "aug1-UTT": UTT), else itself.
std::string_view OriginalName(std::string_view name);

}  // namespace antiphon::data
