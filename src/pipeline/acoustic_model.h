// A model file of either kind, GMM or network, as whoever aligns or decodes sees it.
//
// Threads: const methods may run together; a ScoreSource belongs to one thread, and the model must outlive it.
// Errors: InputError naming the file; for features of another dimension than the model's.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/score_source.h"
#include "hmm/feature_transform.h"
#include "hmm/fmllr.h"
#include "hmm/gmm_model.h"
#include "hmm/hmm_model.h"
#include "hmm/online_ivector.h"
#include "infer/nnet_scorer.h"
#include "math/matrix.h"

namespace antiphon {

/// Scores of an utterance whose features come in pieces; a search asks for them in order, and old ones are forgotten.
class ScoreStream : public ScoreSource {
 public:
  /// More normalised base features, and whether they are the last.
  virtual void Accept(ConstMatrixView features, bool ended) = 0;
};

class AcousticModel {
 public:
  virtual ~AcousticModel() = default;

  static std::unique_ptr<AcousticModel> Load(const std::filesystem::path& path,
                                             const infer::NnetScorerOptions& options);

  virtual const hmm::HmmModel& hmm() const = 0;
  /// The front end's options as TOML, "" if unknown.
  virtual std::string features() const = 0;
  /// By speakers' statistics, as data::FeatureKind has it; "" for Gaussians and where it is not known.
  std::string normalisation() const;
  /// Scores of one utterance from its normalised base features, its speaker being unknown.
  std::unique_ptr<ScoreSource> Score(Matrix features) const { return Score(std::move(features), nullptr); }
  /// The same with the speaker's profile, bound to network() (null: none). A model with an i-vector extractor puts its
  /// vectors behind features that have none yet, from what `heard` says of the speaker on, and leaves there what the
  /// utterance adds (null: nothing is known, nothing is kept).
  virtual std::unique_ptr<ScoreSource> Score(Matrix features, std::shared_ptr<const infer::BoundProfile> profile,
                                             hmm::OnlineIvectorState* heard = nullptr) const = 0;
  /// The same scores in pieces; `heard` changes with the last of them. `speaker_transform`: of a model that adapts
  /// (ScoreAdapted); null: the speaker is unknown.
  virtual std::unique_ptr<ScoreStream> Stream(std::shared_ptr<const infer::BoundProfile> profile,
                                              const Matrix* speaker_transform,
                                              hmm::OnlineIvectorState* heard = nullptr) const = 0;

  /// For speech that is still coming: the network, and what stands between the front end's features and its own (null:
  /// nothing). Null for a GMM.
  virtual std::shared_ptr<const infer::NnetModel> network() const { return nullptr; }
  virtual const hmm::FeatureTransform* transform() const { return nullptr; }
  /// What says who speaks, for the network to read behind its features; null: nothing.
  virtual std::shared_ptr<const hmm::IvectorExtractor> ivectors() const { return nullptr; }

  /// Frames of the features for a frame of the search.
  int subsampling() const {
    const auto scored = network();
    return scored ? scored->subsampling() : 1;
  }

  /// Outputs that the network's lazy scorers computed so far, as a share of all; 1 for anything else.
  virtual double computed_share() const { return 1.0; }

  /// What estimates speakers' transforms for a model that adapts to speakers, else null: the GMM itself, or the one
  /// whose features the network was trained on.
  virtual const hmm::GmmModel* adaptive() const { return nullptr; }
  /// What its Gaussians expect of a frame of speech (hmm::ExpectedSpeech), computed when first asked for. Only if
  /// adaptive().
  const hmm::FmllrEstimator& expected_speech() const;
  /// Scores of one utterance of a speaker whose transform is known. Only if adaptive().
  virtual std::unique_ptr<ScoreSource> ScoreAdapted(const Matrix& features, const Matrix& speaker_transform,
                                                    std::shared_ptr<const infer::BoundProfile> profile = nullptr) const;

 private:
  mutable std::once_flag expected_once_;
  mutable std::optional<hmm::FmllrEstimator> expected_speech_;
};

/// Scores of a Gaussian model, as AcousticModel::Stream.
std::unique_ptr<ScoreStream> StreamOf(const hmm::GmmModel& model, const Matrix* speaker_transform);

/// Whether a model file is that of Gaussian mixtures, not of a network.
bool IsGmm(const std::filesystem::path& path);

}  // namespace antiphon
