// Maximum-likelihood training of Gaussian mixtures: statistics, re-estimation, splitting.
//
// Statistics are sums in double precision. Utterances go into fixed shards whose statistics are added in a fixed order,
// so that the result does not depend on the number of threads. Units: log-likelihoods in nats. Source: Dempster, Laird,
// Rubin 1977; mixing up by occupancy^power as in Young et al., The HTK Book.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/options.h"
#include "base/random.h"
#include "hmm/gmm.h"

namespace antiphon::hmm {

struct GmmUpdateOptions {
  double min_occupancy = 10;
  double min_weight = 1e-5;
  double min_variance = 0.001;
  template <class V>
  void Visit(V& v) {
    v("min-gaussian-occupancy", min_occupancy, Range{0, 1e9}, "frames that a Gaussian needs to be kept");
    v("min-gaussian-weight", min_weight, Range{0, 0.1}, "weight below which a Gaussian is removed");
    v("variance-floor", min_variance, Range{1e-10, 1e3}, "least variance");
  }
};

/// How much a frame of an utterance counts.
struct FrameWeight {
  int frame = 0;
  double weight = 1;
};

class GmmStats {
 public:
  GmmStats() = default;
  explicit GmmStats(const GmmSet& gmm);
  void SetZero();

  /// Adds frames [N, dim] (`blocks` of the same) with one pdf-id each; negative ones are skipped. Returns Σ log
  /// p(x|pdf).
  double Accumulate(const GmmSet& gmm, ConstMatrixView frames, const FrameBlocks& blocks,
                    std::span<const int32_t> pdfs);
  /// Adds some of the frames, in rising order, all of one pdf-id, each with its weight. Returns Σ weight · log
  /// p(x|pdf).
  double AccumulateWeighted(const GmmSet& gmm, ConstMatrixView frames, const FrameBlocks& blocks, int32_t pdf_id,
                            std::span<const FrameWeight> weights);
  void Add(const GmmStats& other);

  double Occupancy(int gaussian) const { return occupancy_[static_cast<size_t>(gaussian)]; }
  double PdfOccupancy(const GmmSet& gmm, int32_t pdf_id) const;
  /// [G, 2·dim]: Σ γ x, Σ γ x².
  const DoubleMatrix& sums() const { return sums_; }
  double log_likelihood() const { return log_likelihood_; }
  double num_frames() const { return num_frames_; }
  template <class V>
  void VisitFields(V& v) {
    v(occupancy_);
    v(sums_);
    v(log_likelihood_);
    v(num_frames_);
  }

 private:
  // All within one block.
  double AddInBlock(const GmmSet& gmm, ConstMatrixView frames, const FrameBlocks& blocks, int32_t pdf_id,
                    std::span<const FrameWeight> weights);

  std::vector<double> occupancy_;  // Σ γ
  DoubleMatrix sums_;
  double log_likelihood_ = 0;
  double num_frames_ = 0;
  std::vector<float> scratch_;
};

/// New parameters from statistics of `gmm`. A Gaussian with too few frames is removed unless it is its mixture's last,
/// which is then kept as it was.
GmmSet Reestimate(const GmmSet& gmm, const GmmStats& stats, const GmmUpdateOptions& options);

/// Splits the heaviest Gaussians by ±perturbation standard deviations (random direction) until there are `target` of
/// them in all, shared out over pdf-ids in proportion to occupancy^power; none has fewer than min_occupancy frames per
/// Gaussian.
GmmSet MixUp(const GmmSet& gmm, std::span<const double> pdf_occupancy, int target, double power, double min_occupancy,
             Rng& rng, double perturbation = 0.01);

}  // namespace antiphon::hmm
