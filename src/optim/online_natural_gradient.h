// Online, rank-constrained natural gradient for one side (inputs or output derivatives) of one affine layer.
//
// Keeps an estimate F = Rᵀ diag(d) R + ρI of the rows' covariance, R [rank, dim] with orthonormal rows, and multiplies
// rows by (a smoothed, rescaled) F⁻¹. The factors of a gradient are preconditioned one after the other: with X̂ of the
// inputs and Ĝ of the derivatives, the update is ε·γ_x·γ_g·ĜᵀX̂, where γ restores the Frobenius norm.
//
// Shapes: rows are frames [N, dim]; N may be 0 (nothing happens, factor 1). dim = 1 or rank 0 is a no-op.
// Units: scale free.
// Threads: one thread per object; products use the caller's compute threads.
// Determinism: the state depends on the sequence of minibatches alone. Each worker keeps its own; states are never
// averaged.
// Source: Povey, Zhang, Khudanpur, "Parallel training of DNNs with natural gradient and parameter averaging", ICLR
// workshop 2015.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "math/bf16.h"
#include "math/matrix.h"
#include "math/padded_matrix.h"
#include "math/safetensors.h"

namespace antiphon::optim {

struct NaturalGradientOptions {
  int input_rank = 20;
  int output_rank = 80;
  double alpha = 4.0;
  double history_frames = 2000.0;
  int update_period = 4;
  template <class V>
  void Visit(V& v) {
    v("input-rank", input_rank, Range{0, 4096},
      "rank of the inputs' covariance (at most half the dimension); 0 turns it off");
    v("output-rank", output_rank, Range{0, 4096}, "rank of the derivatives' covariance (at most half the dimension)");
    v("alpha", alpha, Range{0.0, 1e6}, "smoothing towards the identity; larger is closer to plain SGD");
    v("history-frames", history_frames, Range{1.0, 1e9}, "frames over which the covariance forgets");
    v("update-period", update_period, Range{1, 1 << 20}, "minibatches between updates of the covariance");
  }
};

class OnlineNaturalGradient {
 public:
  /// `rank` is reduced to min(rank, (dim + 1) / 2), and below dim.
  OnlineNaturalGradient(int64_t dim, int rank, double alpha, double history_frames, int update_period);

  /// Overwrites the rows of x [N, dim] by X̂ and returns γ = ‖X‖/‖X̂‖; x·γ has the norm of the rows given.
  /// Rows of zeros give zeros and γ = 1. Non-finite rows are left alone, do not touch the state, and give γ = 1.
  /// `rounded`, if not empty, is x in bf16: then the products with R are bf16's, at twice the speed.
  float Precondition(MatrixView x, ConstBf16View rounded = {});

  /// For gradients that are multiplied instead of their factors: Observe looks at the rows if they are due to count,
  /// keeping γ for the minibatches up to the next ones that are, which need not be given.
  bool due() const;
  void Observe(ConstMatrixView x, ConstBf16View rounded = {});
  void Skip() { ++minibatches_; }
  /// m [n, dim] ← γ·m·F⁻¹ and m [dim, n] ← γ·F⁻¹·m, with F as before the last rows that counted.
  void MultiplyColumns(MatrixView m);
  void MultiplyRows(MatrixView m);

  /// Moves F on by the rows of the last Precondition or Observe, if they are due to count, for all of `sides` together:
  /// most of an update is arithmetic of one thread. Left undone, it happens in the next Precondition, with the same
  /// result.
  static void Update(std::span<OnlineNaturalGradient* const> sides);

  int64_t dim() const { return dim_; }
  int rank() const { return rank_; }
  /// R [rank, dim], d [rank] and ρ, for tests and reports.
  ConstMatrixView basis() const { return basis_.view(); }
  const std::vector<double>& eigenvalues() const { return d_; }
  double rho() const { return rho_; }

  /// The whole state, for exact resume; LoadState throws InputError if it belongs to another shape.
  void SaveState(SafetensorsWriter& writer, const std::string& prefix) const;
  void LoadState(const SafetensorsReader& reader, const std::string& prefix);

 private:
  double LookAt(ConstMatrixView x, ConstBf16View rounded);
  void Initialise(ConstMatrixView x);
  void Project(ConstMatrixView x, ConstBf16View rounded);
  void Correlate(ConstMatrixView x, double x_squared);
  float Multiply(MatrixView x, bool rounded, double x_squared);
  std::vector<float> Shares() const;
  void UpdateAlone();
  bool FindSpectrum();
  void Rotate(bool repair);
  void Reorthogonalise();
  void RoundBasis();
  void LoadPending(const SafetensorsReader& reader, const std::string& prefix);

  int64_t dim_;
  int rank_;
  double alpha_;
  double history_frames_;
  int update_period_;

  int64_t minibatches_ = 0;
  double rho_ = 0.0;
  double gamma_ = 1.0;
  std::vector<double> d_;
  PaddedMatrix<float> basis_;

  // What the next update takes: frames and ‖X‖² of the rows whose R XᵀX is in rotated_. 0 frames: nothing to do.
  int64_t pending_frames_ = 0;
  double pending_squared_ = 0.0;

  // Scratch, kept so that a step allocates nothing large.
  Matrix projected_;               // H = X Rᵀ [N, rank]
  Matrix weighted_;                // H diag(e) [N, rank]
  Matrix rotated_;                 // Y = R T [rank, dim]
  Matrix rotation_;                // C^{-1/2} Uᵀ [rank, rank]
  DoubleMatrix exact_;             // Y in double
  PaddedMatrix<Bf16> basis_half_;  // R; empty until rounded rows come
  Bf16Matrix weighted_half_;
};

}  // namespace antiphon::optim
