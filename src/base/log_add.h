// Sums of numbers that are known by their logarithms.
//
// Units: nats. Threads: pure functions.
#pragma once

#include <cmath>
#include <limits>
#include <utility>

namespace antiphon {

/// log(eᵃ + eᵇ); −∞ stands for 0.
inline double LogAdd(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == -std::numeric_limits<double>::infinity() ? a : a + std::log1p(std::exp(b - a));
}

/// The same of costs, which are negative logarithms; ∞ stands for what cannot be.
inline double LogAddCosts(double a, double b) {
  if (a > b) std::swap(a, b);
  return b == std::numeric_limits<double>::infinity() ? a : a - std::log1p(std::exp(a - b));
}

}  // namespace antiphon
