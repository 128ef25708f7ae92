// Preconditioned conjugate gradients, as Hessian-free training uses them: stopped early, with the iterates on the way
// kept for backtracking.
//
// Minimises q(p) = ½·pᵀ·B·p + gᵀ·p for a positive definite B given by its products.
// Units: double throughout; products may be computed in float. Threads: one.
// Source: Martens, ICML 2010 (stopping rule, kept iterates); algorithms reference 1.19.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace antiphon::optim {

struct ConjugateGradientOptions {
  int max_iterations = 250;
  /// Stops when the relative progress over the last k = max(10, 0.1·i) iterations falls below k times this; 0: never.
  double tolerance = 5e-4;
  /// Iterates are kept at 1, 2, 3, 4, 6, 8, … each this factor later, and the last one.
  double keep_factor = 1.3;
};

struct ConjugateGradientResult {
  std::vector<std::vector<double>> iterates;  // in their order; at least one
  int iterations = 0;
};

/// `product(v, bv)` overwrites bv with B·v; `preconditioner` is the diagonal of an approximation of B, all positive;
/// empty: none.
ConjugateGradientResult ConjugateGradient(
    const std::function<void(std::span<const double> v, std::span<double> bv)>& product, std::span<const double> g,
    std::span<const double> preconditioner, std::span<const double> start, const ConjugateGradientOptions& options);

}  // namespace antiphon::optim
