// Total variability: what is one speaker's (or one recording's) of the features, as a vector of a few numbers.
//
// A mixture of Gaussians, the background, says what all speakers share; of speaker s, Gaussian c has the mean m_c + T_c
// w_s, with w_s drawn from a standard normal distribution. Given the speech, w_s is Gaussian again; its mean is the
// i-vector. Without speech it is zero.
//
//   const GmmSet background = TrainBackground(frames, {.gaussians = 64}, seed);
//   IvectorExtractor extractor(background, 20, seed);
//   for (int i = 0; i < 10; ++i) extractor.Improve(speakers);        // EM; speakers: extractor.Collect per speaker
//   const std::vector<double> w = extractor.Infer(stats).mean;
//
// Shapes: T [C·D, R] for C Gaussians of D dimensions and vectors of R. Units: log-likelihoods in nats. Threads: const
// methods may run together. Deterministic. Source: Dehak et al., Front-end factor analysis for speaker verification,
// 2011; Saon et al., Speaker adaptation of neural network acoustic models using i-vectors, ASRU 2013; Kenny, Boulianne,
// Dumouchel, Eigenvoice modeling with sparse training data, 2005 (EM). Errors: InputError for files that are none, and
// for speech too little to train on; ShapeError for features of another dimension.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "hmm/gmm_training.h"
#include "math/linalg.h"

namespace antiphon::hmm {

/// Utterances one after another, as often as asked for.
struct FrameReader {
  size_t count = 0;
  std::function<Matrix(size_t)> get;  // [frames, dim]
};

struct BackgroundOptions {
  int gaussians = 64;
  int iterations = 4;
  template <class V>
  void Visit(V& v) {
    v("gaussians", gaussians, Range{1, 1 << 16}, "Gaussians that describe all speakers together");
    v("background-iterations", iterations, Range{1, 100}, "EM iterations at each size; sizes double");
  }
};

/// A mixture (of one pdf-id) by EM, split until it has as many Gaussians as asked for and speech allows.
GmmSet TrainBackground(const FrameReader& frames, const BackgroundOptions& options, uint64_t seed);

class IvectorExtractor {
 public:
  /// T starts with small random values.
  IvectorExtractor(GmmSet background, int dim, uint64_t seed);

  int dim() const { return static_cast<int>(variability_.cols()); }
  int feature_dim() const { return background_.dim(); }
  const GmmSet& background() const { return background_; }
  /// [C·D, R].
  const DoubleMatrix& variability() const { return variability_; }
  void SetVariability(DoubleMatrix variability);

  /// How often, and at which values, the Gaussians saw these frames; Add gathers a speaker's utterances.
  GmmStats Collect(ConstMatrixView frames) const;

  struct Posterior {
    std::vector<double> mean;  // the i-vector
    DoubleMatrix covariance;
    double gain = 0;  // of log-likelihood over w = 0, w integrated out
  };
  /// Frames that follow each other say the same again and again: they count `scale` each.
  Posterior Infer(const GmmStats& stats, double scale = 1.0) const;

  /// One EM iteration over speakers; returns Σ gain before it, which none lowers.
  double Improve(std::span<const GmmStats> speakers, double scale = 1.0);

  void Save(const std::filesystem::path& path) const;
  static IvectorExtractor Load(const std::filesystem::path& path);

 private:
  explicit IvectorExtractor(GmmSet background);
  void Prepare();
  // T_cᵀ Σ_c⁻¹ Σ_t γ (x_t − m_c), summed over c.
  std::vector<double> Projected(const GmmStats& stats, double scale) const;

  GmmSet background_;
  DoubleMatrix variability_;
  std::vector<DoubleMatrix> precisions_;  // T_cᵀ Σ_c⁻¹ T_c
};

}  // namespace antiphon::hmm
