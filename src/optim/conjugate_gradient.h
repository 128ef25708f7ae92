// Preconditioned conjugate gradients, as Hessian-free training uses them: stopped early, with the iterates on the way
// kept for backtracking.
//
// Minimises q(p) = ½·pᵀ·B·p + gᵀ·p for a positive definite B given by its products.
// Units: double throughout; products may be computed in float. Threads: one.
// Source: Martens, ICML 2010 (stopping rule, kept iterates); algorithms reference 1.19.
#pragma once

#include <cstddef>
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
  /// For preconditioners that are no fixed symmetric matrix: directions by Polak and Ribière's rule.
  bool flexible = false;
};

/// Iterates that a run keeps at most.
size_t KeptIterates(const ConjugateGradientOptions& options);

struct ConjugateGradientResult {
  std::vector<std::vector<double>> iterates;  // in their order; at least one
  int iterations = 0;
};

using VectorFunction = std::function<void(std::span<const double> in, std::span<double> out)>;

/// `product(v, bv)` overwrites bv with B·v; `preconditioner(r, y)` y with an approximation of B⁻¹·r, empty: r itself.
/// `on_step(s, bs)` hears every step and its product, if it is given.
ConjugateGradientResult ConjugateGradient(
    const VectorFunction& product, std::span<const double> g, const VectorFunction& preconditioner,
    std::span<const double> start, const ConjugateGradientOptions& options,
    const std::function<void(std::span<const double> s, std::span<const double> bs)>& on_step = {});

/// Division by the elements of a diagonal, all positive, which outlives it.
VectorFunction DiagonalPreconditioner(const std::vector<double>& diagonal);

}  // namespace antiphon::optim
