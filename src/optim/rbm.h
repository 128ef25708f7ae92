// Restricted Boltzmann machines, trained by contrastive divergence: initial values for the layers of a deep network.
//
// Shapes: minibatches v [B, visible]; weight [hidden, visible] as in an affine layer, so that σ(v Wᵀ + b) is that
// layer's forward pass. Gaussian visible units have unit variance: inputs must be normalised to mean 0 and variance 1.
// Units: rates per frame; reconstruction error is the mean squared (Gaussian) or cross-entropy (Bernoulli) error per
// visible unit.
// Determinism: sampling depends on (seed, minibatch number) alone.
// Threads: one per object.
// Errors: ShapeError, DivergenceError.
// Source: G. Hinton, "A practical guide to training restricted Boltzmann machines", 2010; Dahl, Yu, Deng, Acero, IEEE
// TASLP 2012.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "math/matrix.h"
#include "math/safetensors.h"

namespace antiphon::optim {

struct RbmOptions {
  double learning_rate = 0.4;
  double gaussian_learning_rate = 0.01;
  double weight_cost = 2e-4;
  double initial_momentum = 0.5;
  double final_momentum = 0.9;
  int64_t momentum_frames = 20000000;
  int gibbs_steps = 1;
  template <class V>
  void Visit(V& v) {
    v("learning-rate", learning_rate, Range{0, 100}, "for Bernoulli visible units; multiplied by 1 - momentum");
    v("gaussian-learning-rate", gaussian_learning_rate, Range{0, 100}, "for Gaussian visible units, likewise");
    v("weight-cost", weight_cost, Range{0, 1}, "L2 decay of the weights");
    v("initial-momentum", initial_momentum, Range{0, 0.999}, "momentum at the start");
    v("final-momentum", final_momentum, Range{0, 0.999}, "momentum once it has risen");
    v("momentum-frames", momentum_frames, Range{1, 1e12}, "frames over which the momentum rises linearly");
    v("gibbs-steps", gibbs_steps, Range{1, 10000}, "steps of the Markov chain (CD-k)");
  }
};

enum class VisibleUnits { kGaussian, kBernoulli };

class Rbm {
 public:
  /// Weights N(0, 0.1²); hidden biases uniform in [-4.1, -3.9]; visible biases 0 until SetVisibleMean.
  Rbm(int64_t visible, int64_t hidden, VisibleUnits units, const RbmOptions& options, uint64_t seed);

  /// Bernoulli: visible biases from the units' mean activity, clipped away from 0 and 1.
  void SetVisibleMean(std::span<const double> mean);

  struct StepReport {
    double reconstruction_error = 0;
    bool guard_fired = false;  // the reconstruction exploded: everything was shrunk, the rate lowered, momentum reset
  };
  StepReport Train(ConstMatrixView v);

  /// h [B, hidden]: hidden probabilities, the input of the next machine.
  void HiddenProbabilities(ConstMatrixView v, MatrixView h) const;
  /// Σ over frames of h⁺vᵀ − h⁻v⁻ᵀ, divided by the frames: what a step would follow, without taking it.
  Matrix Gradient(ConstMatrixView v);

  /// Everything that a bit-identical continuation needs; tensor names start with `prefix`.
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const;
  /// InputError if it was another machine's.
  void LoadState(const SafetensorsReader& reader, const std::string& prefix);

  const Matrix& weight() const { return weight_; }
  const std::vector<float>& hidden_bias() const { return hidden_bias_; }
  const std::vector<float>& visible_bias() const { return visible_bias_; }
  Matrix& weight() { return weight_; }
  std::vector<float>& hidden_bias() { return hidden_bias_; }
  std::vector<float>& visible_bias() { return visible_bias_; }

 private:
  void RunChain(ConstMatrixView v);
  void Reconstruct(ConstMatrixView h, MatrixView v) const;
  void SampleBernoulli(MatrixView probabilities, uint64_t draw) const;
  void SampleGaussian(MatrixView means, uint64_t draw) const;
  double ReconstructionError(ConstMatrixView v) const;
  bool GuardAgainstExplosion(ConstMatrixView v);
  void UpdateBias(std::vector<float>& bias, std::vector<float>& velocity, ConstMatrixView positive,
                  ConstMatrixView negative, double momentum, double rate) const;

  VisibleUnits units_;
  RbmOptions options_;
  uint64_t seed_;
  double rate_;
  int64_t frames_seen_ = 0;
  int64_t minibatches_ = 0;
  Matrix weight_;
  Matrix weight_velocity_;
  std::vector<float> hidden_bias_;
  std::vector<float> hidden_velocity_;
  std::vector<float> visible_bias_;
  std::vector<float> visible_velocity_;
  Matrix hidden_positive_;
  Matrix hidden_sample_;
  Matrix hidden_negative_;
  Matrix visible_negative_;
};

}  // namespace antiphon::optim
