// Speech that lattices are made of for discriminative training, with the scores of the model that it begins with: a
// frame store that a network scores, or a data directory whose features Gaussian mixtures score.
//
// Threads: const methods may run together; a ScoreSource belongs to one thread, and the speech must outlive it.
// Errors: InputError for features that are not the model's; UsageError for speech that the model cannot be trained on.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/score_source.h"
#include "data/feature_source.h"
#include "data/frame_store.h"
#include "hmm/gmm_model.h"
#include "infer/nnet_scorer.h"

namespace antiphon::pipeline {

class LatticeSpeech {
 public:
  virtual ~LatticeSpeech() = default;
  virtual size_t size() const = 0;
  virtual std::string UttId(size_t i) const = 0;
  virtual std::unique_ptr<ScoreSource> Scores(size_t i) const = 0;
  /// Distance of its frames.
  virtual double frame_seconds() const = 0;
};

/// `place` is the store: a folder, or an address.
std::unique_ptr<const LatticeSpeech> StoredSpeech(const std::string& model, const std::string& place,
                                                  const data::FrameStoreAccess& access,
                                                  const infer::NnetScorerOptions& options);

/// Tables that stand in the folder `data` need not be named.
std::unique_ptr<const LatticeSpeech> MixtureSpeech(const std::string& model, const std::string& data,
                                                   const data::FeatureSourceOptions& tables);

/// The tables of `data` through the transform of the Gaussian model in the file, and through its speakers' transforms
/// if it adapts to speakers: those that are named or else those beside the model (fmllr.scp), where antiphon align
/// leaves both.
data::FeatureSourceOptions TablesForMixtures(const std::string& file, const hmm::GmmModel& model,
                                             const std::string& data, const data::FeatureSourceOptions& tables);

}  // namespace antiphon::pipeline
