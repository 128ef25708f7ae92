#include "optim/conjugate_gradient.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace antiphon::optim {
namespace {

double Dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

bool ProgressIsSlow(const std::vector<double>& q, double tolerance) {
  const size_t i = q.size() - 1;
  const size_t k = std::max<size_t>(10, i / 10);
  if (tolerance <= 0 || i < k || q[i] >= 0) return false;
  return (q[i] - q[i - k]) / q[i] < static_cast<double>(k) * tolerance;
}

double NextKept(double kept, const ConjugateGradientOptions& options) {
  return std::max(kept + 1, std::ceil(kept * options.keep_factor));
}

}  // namespace

size_t KeptIterates(const ConjugateGradientOptions& options) {
  size_t count = 1;  // the last
  for (double kept = 1; kept <= options.max_iterations; kept = NextKept(kept, options)) ++count;
  return count;
}

ConjugateGradientResult ConjugateGradient(
    const VectorFunction& product, std::span<const double> g, const VectorFunction& preconditioner,
    std::span<const double> start, const ConjugateGradientOptions& options,
    const std::function<void(std::span<const double> s, std::span<const double> bs)>& on_step) {
  const size_t n = g.size();
  CHECK_EQ(start.size(), n);
  std::vector<double> p(start.begin(), start.end());
  std::vector<double> r(n);  // B·p + g
  std::vector<double> y(n);  // preconditioned r
  std::vector<double> d(n);
  std::vector<double> bd(n);
  product(p, r);
  for (size_t i = 0; i < n; ++i) r[i] += g[i];
  const auto precondition = [&] {
    if (preconditioner) {
      preconditioner(r, y);
    } else {
      y = r;
    }
  };
  precondition();
  std::vector<double> last_y;
  for (size_t i = 0; i < n; ++i) d[i] = -y[i];
  double ry = Dot(r, y);

  ConjugateGradientResult result;
  // q(p) = ½·pᵀ(r + g), as B·p = r − g.
  std::vector<double> q = {0.5 * (Dot(p, r) + Dot(p, g))};
  double next_kept = 1;
  while (result.iterations < options.max_iterations && ry > 0) {
    product(d, bd);
    const double curvature = Dot(d, bd);
    if (!(curvature > 0)) break;
    const double step = ry / curvature;
    for (size_t i = 0; i < n; ++i) p[i] += step * d[i];
    for (size_t i = 0; i < n; ++i) r[i] += step * bd[i];
    if (on_step) on_step(d, bd);
    if (options.flexible) last_y = y;
    precondition();
    const double new_ry = Dot(r, y);
    const double beta = (options.flexible ? new_ry - Dot(r, last_y) : new_ry) / ry;
    ry = new_ry;
    for (size_t i = 0; i < n; ++i) d[i] = beta * d[i] - y[i];
    ++result.iterations;
    q.push_back(0.5 * (Dot(p, r) + Dot(p, g)));
    const bool last = ProgressIsSlow(q, options.tolerance);
    if (result.iterations >= next_kept || last) {
      result.iterates.push_back(p);
      next_kept = NextKept(next_kept, options);
    }
    if (last) return result;
  }
  if (result.iterates.empty() || result.iterates.back() != p) result.iterates.push_back(p);
  return result;
}

VectorFunction DiagonalPreconditioner(const std::vector<double>& diagonal) {
  return [&diagonal](std::span<const double> r, std::span<double> y) {
    CHECK_EQ(r.size(), diagonal.size());
    for (size_t i = 0; i < r.size(); ++i) y[i] = r[i] / diagonal[i];
  };
}

}  // namespace antiphon::optim
