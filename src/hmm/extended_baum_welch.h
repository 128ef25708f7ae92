// Discriminative re-estimation of Gaussian mixtures: away from what competes with the reference, towards the reference.
//
// From numerator statistics (frames that count for a Gaussian) and denominator statistics (those that count against
// it):
//   μ' = (Σnum x − Σden x + D μ) / n,   σ²' = (Σnum x² − Σden x² + D (σ² + μ²)) / n − μ'²,   n = γnum − γden + D
// with D = max(τ + E γden, twice the least D for which n and all σ²' are positive). τ frames of the Gaussian as it was
// are so mixed in (I-smoothing to the previous iteration). Weights w' maximise Σ (γnum + τ_w w) log w' − γden w' / w.
//
// Units: occupancies in frames. Threads: pure function. A Gaussian without statistics stays as it was, bit by bit; none
// is removed. Source: Povey, Discriminative training for large vocabulary speech recognition, thesis, Cambridge 2003
// (weights: 4.4.4); Povey et al., Boosted MMI for model and feature-space discriminative training, ICASSP 2008.
#pragma once

#include "base/options.h"
#include "hmm/gmm.h"
#include "hmm/gmm_training.h"

namespace antiphon::hmm {

struct EbwOptions {
  double e = 2.0;
  double tau = 200;
  double weight_tau = 10;
  double min_weight = 1e-5;
  double min_variance = 0.001;
  template <class V>
  void Visit(V& v) {
    v("ebw-e", e, Range{0, 100}, "E: how many times its denominator's frames a Gaussian holds on to what it was");
    v("tau", tau, Range{0, 1e9}, "frames besides with which a Gaussian holds on to what it was (I-smoothing)");
    v("weight-tau", weight_tau, Range{0, 1e9}, "frames with which a mixture's weights hold on to what they were");
    v("min-gaussian-weight", min_weight, Range{0, 0.1}, "least weight of a Gaussian");
    v("variance-floor", min_variance, Range{1e-10, 1e3}, "least variance");
  }
};

struct EbwReport {
  int updated = 0;          // Gaussians
  int slowed = 0;           // of these, whose variances took a D beyond τ + E γden
  int floored = 0;          // variances
  int updated_weights = 0;  // mixtures
};

/// New parameters from statistics of `gmm`.
GmmSet ExtendedBaumWelch(const GmmSet& gmm, const GmmStats& numerator, const GmmStats& denominator,
                         const EbwOptions& options, EbwReport* report);

}  // namespace antiphon::hmm
