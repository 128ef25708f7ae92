// A trained GMM recogniser: states, mixtures and the feature transform in front of them, in one file.
//
// A speaker-adaptive model also has the mixtures of the first pass, which score speakers whose transform is not known
// yet; its own mixtures expect features after the speaker's transform. File: safetensors; the HMM and texts in its
// metadata. Threads: const methods may run together. Errors: InputError naming the file and what is missing or
// inconsistent.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "hmm/feature_transform.h"
#include "hmm/gmm.h"
#include "hmm/hmm_model.h"

namespace antiphon::hmm {

struct GmmModel {
  std::string stage;  // "mono", "tri", "lda-mllt", "sat"
  HmmModel hmm;
  GmmSet gmm;
  std::optional<GmmSet> first_pass;  // of a speaker-adaptive model
  FeatureTransform transform;        // from base features to the Gaussians'
  std::string lexicon;               // text that Lexicon::Parse reads
  std::string lexicon_options;       // TOML
  std::string features;              // TOML: what the base features are

  bool speaker_adaptive() const { return first_pass.has_value(); }

  void Save(const std::filesystem::path& path) const;
  static GmmModel Load(const std::filesystem::path& path);
  /// From the bytes of such a file; `name` stands for the path in errors.
  static GmmModel Parse(std::span<const std::byte> bytes, const std::string& name);

  /// Scores of one utterance, from its base features: by the Gaussians for speakers without a transform, and by those
  /// for speakers with one.
  GmmScorer FirstPassScores(ConstMatrixView base_features) const;
  GmmScorer AdaptedScores(ConstMatrixView base_features, ConstMatrixView speaker_transform) const;
  /// The one or the other; `speaker_transform`: null: not known.
  GmmScorer Scores(ConstMatrixView base_features, const Matrix* speaker_transform) const;
};

}  // namespace antiphon::hmm
