// Features of utterances by id, normalised by their speaker's statistics and, if asked for, brought to a GMM's
// speaker-adapted space, with a vector that says who speaks behind them: what alignment, decoding and frame stores
// read.
//
//   const FeatureSource features({.features = "feats.scp", .utt2spk = "data/train/utt2spk", .cmvn = "cmvn.scp"});
//   ParallelInOrder<Path>(features.keys().size(), 0, [&](size_t i) { return Align(features.Get(features.keys()[i])); },
//   write);
//
// Shapes: one frame per row. Threads: const methods may run together. Errors: InputError naming table and utterance,
// and what was looked for.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "data/feature_kind.h"
#include "feat/zero_spans.h"
#include "math/matrix.h"

namespace antiphon::data {

struct FeatureSourceOptions {
  std::string features;
  std::string utt2spk;
  std::string cmvn;
  bool norm_vars = false;
  std::string speaker_model;
  std::string speaker_transforms;
  std::string speaker_vectors;
  // For callers, not a person's options.
  std::string parts;  // folder of FeatureParts, further utterances; empty: none
  std::string zeros;  // utt2zeros of the features; empty: unknown
  // Share of the utterances that are an unknown speaker's, whatever is known: normalised by themselves, without a
  // transform. Which of them does not depend on the others.
  double unknown_speakers = 0;
  template <class V>
  void Visit(V& v) {
    v("features", features, "table of feature matrices (feats.scp)");
    v("utt2spk", utt2spk, "file that says who speaks; empty: each utterance is its own speaker");
    v("cmvn", cmvn,
      "table of normalisation statistics by speaker or, failing that, by utterance; empty: not normalised");
    v("norm-vars", norm_vars, "divide by the standard deviation too");
    v("speaker-model", speaker_model, "GMM model through whose transform (deltas, LDA, MLLT) the features go then");
    v("speaker-transforms", speaker_transforms,
      "table of transforms by speaker (fmllr.scp) that follow the speaker model's, or in decode those that the model "
      "itself would look for; empty: none");
    v("speaker-vectors", speaker_vectors,
      "table of vectors by speaker or, failing that, by utterance (ivectors.scp) that stand behind the features of "
      "each "
      "frame; empty: none");
  }
};

/// As data::FeatureKind says it.
std::string NormalisationOf(const FeatureSourceOptions& options);

class FeatureSource {
 public:
  explicit FeatureSource(const FeatureSourceOptions& options);
  ~FeatureSource();

  /// In the order of the feature table.
  const std::vector<std::string>& keys() const;
  bool Has(std::string_view utt_id) const;
  /// Bytes that each of these takes in the table, as a measure of its length; 1 where the table does not tell.
  std::vector<int64_t> Sizes(const std::vector<std::string>& utterances) const;
  Matrix Get(std::string_view utt_id) const;
  /// The same in pieces, for recordings that are long: Get's rows one after another, 1 piece or more.
  int64_t NumParts(std::string_view utt_id) const;
  Matrix GetPart(std::string_view utt_id, int64_t part) const;
  /// Frames, where that is known without reading them; else −1.
  int64_t NumFrames(std::string_view utt_id) const;
  /// Where the utterance's audio is nothing but zeros, as far as that is known.
  feat::ZeroSpans Zeros(std::string_view utt_id) const;
  /// Of what Get returns.
  FeatureKind kind() const;
  /// InputError if a utt2spk is given and lacks the utterance.
  std::string Speaker(std::string_view utt_id) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace antiphon::data
