// Total variability: what is one speaker's (or one recording's) of the features, as a vector of a few numbers.
//
// A mixture of Gaussians, the background, says what all speakers share; of speaker s, Gaussian c has the mean m_c + T_c
// w_s, with w_s drawn from a standard normal distribution. Given the speech, w_s is Gaussian again; its mean is the
// i-vector. Without speech it is zero.
//
// With a prior offset p the mean is T_c w_s, and w_s is drawn around (p, 0, 0, …): T_c's first column takes the place
// of m_c, so that EM finds that too. The i-vector is counted from (p, 0, 0, …), and is zero without speech as before.
//
//   const GmmSet background = TrainBackground(frames, {.gaussians = 64}, seed);
//   IvectorExtractor extractor(background, 20, seed);
//   for (int i = 0; i < 10; ++i) extractor.Improve(speakers);        // EM; speakers: extractor.Collect per speaker
//   const std::vector<double> w = extractor.Infer(stats).mean;
//
// Shapes: T [C·D, R] for C Gaussians of D dimensions and vectors of R; held in values that fit into floats. Units:
// log-likelihoods in nats. Threads: const methods may run together. Deterministic. Source: Dehak et al., Front-end
// factor analysis for speaker verification, 2011; Saon et al., Speaker adaptation of neural network acoustic models
// using i-vectors, ASRU 2013; Kenny, Boulianne, Dumouchel, Eigenvoice modeling with sparse training data, 2005 (EM);
// Kaldi's ivector/ivector-extractor.h (offset). Errors: InputError for files that are none, and for frames that are not
// finite; ShapeError for features of another dimension.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hmm/feature_transform.h"
#include "hmm/ivector_background.h"
#include "hmm/ivector_options.h"
#include "math/linalg.h"

namespace antiphon {
class SafetensorsReader;
}

namespace antiphon::hmm {

/// How often, and at which values, the Gaussians saw some frames.
struct IvectorStats {
  std::vector<double> occupancy;  // Σ γ per Gaussian
  DoubleMatrix sums;              // [C, D] Σ γ x

  /// Another utterance of the speaker.
  void Add(const IvectorStats& other);
  double count() const;
};

/// A Gaussian that has a part in a frame.
struct GaussianShare {
  int32_t gaussian = 0;
  double posterior = 0;
};

/// Speakers one after another, as often as asked for. May be called from several threads.
struct SpeakerReader {
  size_t count = 0;
  std::function<IvectorStats(size_t)> get;
};

class IvectorExtractor {
 public:
  /// T starts with small random values. `transform`: of the frames that Collect takes; identity if it has no rows.
  IvectorExtractor(GmmSet background, int dim, uint64_t seed, const IvectorOptions& options = {},
                   FeatureTransform transform = {}, double prior_offset = 0);

  int dim() const { return static_cast<int>(variability_.cols()); }
  /// Of the frames that Collect takes.
  int feature_dim() const { return transform_.in_dim(); }
  const GmmSet& background() const { return background_; }
  const IvectorOptions& options() const { return options_; }
  const FeatureTransform& transform() const { return transform_; }
  double prior_offset() const { return prior_offset_; }
  /// [C·D, R].
  const DoubleMatrix& variability() const { return variability_; }
  void SetVariability(DoubleMatrix variability);

  /// Statistics of whole utterances; frames of which there are none may have any dimension.
  IvectorStats Collect(ConstMatrixView frames) const;
  IvectorStats NoSpeech() const;

  struct Posterior {
    std::vector<double> mean;  // the i-vector, counted from the prior's mean and not scaled
    DoubleMatrix covariance;
    double gain = 0;  // of log-likelihood over w = its prior mean, w integrated out
  };
  /// Frames that follow each other say the same again and again: they count `scale` each. Above `max_count` of these
  /// the prior weighs more, as if there were no more; 0: no limit.
  Posterior Infer(const IvectorStats& stats, double scale = 1.0, double max_count = 0) const;
  /// The i-vector of whole utterances by the extractor's own options, vector_scale included.
  std::vector<float> Vector(const IvectorStats& stats) const;

  /// One EM iteration over speakers; returns Σ gain before it, which none lowers. With a prior offset w is brought back
  /// to unit covariance afterwards.
  double Improve(const SpeakerReader& speakers, double scale = 1.0, int threads = 1);

  // For estimates that grow with the speech (hmm/online_ivector.h).
  /// Hands out the Gaussians of each transformed frame [N, D] in order. Bits do not depend on how frames are cut.
  void Shares(ConstMatrixView transformed,
              const std::function<void(int64_t frame, std::span<const GaussianShare>)>& use) const;
  /// linear += weight · T_cᵀ Σ_c⁻¹ (x − m_c); m_c is 0 with a prior offset.
  void AddProjected(int gaussian, double weight, std::span<const float> x, std::span<double> linear) const;
  /// T_cᵀ Σ_c⁻¹ T_c: the lower triangle row by row, R·(R + 1)/2 numbers.
  std::span<const double> Precision(int gaussian) const { return precisions_.Row(gaussian); }
  /// Solves for w, counted from the prior's mean: the prior's weight is `prior`, `quadratic` as Precision.
  std::vector<double> Solve(double prior, std::span<const double> quadratic, std::span<const double> linear) const;

  void Save(const std::filesystem::path& path) const;
  static IvectorExtractor Load(const std::filesystem::path& path);
  /// From the bytes of such a file; `name` stands for the path in errors.
  static IvectorExtractor Parse(std::span<const std::byte> bytes, const std::string& name);

 private:
  struct Sums;
  IvectorExtractor(GmmSet background, const IvectorOptions& options, FeatureTransform transform, double prior_offset);
  static IvectorExtractor Read(const SafetensorsReader& reader);
  void Prepare();
  // What the means are counted from.
  double Base(int gaussian, int64_t d) const;
  // Σ_c T_cᵀ Σ_c⁻¹ Σ_t γ (x_t − base).
  std::vector<double> Projected(const IvectorStats& stats, double scale) const;
  std::vector<double> Quadratic(const IvectorStats& stats, double scale) const;
  void Accumulate(const SpeakerReader& speakers, double scale, int threads, Sums& sums) const;
  void ToUnitCovariance(const Sums& sums);

  GmmSet background_;
  IvectorOptions options_;
  FeatureTransform transform_;
  double prior_offset_ = 0;
  DoubleMatrix variability_;
  DoubleMatrix precisions_;  // [C, R·(R + 1)/2]
};

/// Of the bytes that Save writes: by which extractor vectors were made.
std::string ExtractorChecksum(std::span<const std::byte> file);

}  // namespace antiphon::hmm
