#include "optim/online_natural_gradient.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "base/compute_threads.h"
#include "kernels/elementwise.h"
#include "kernels/reductions.h"
#include "math/gemm.h"
#include "math/linalg.h"

namespace antiphon::optim {
namespace {

constexpr double kEpsilon = 1e-10;     // smallest ρ and d
constexpr double kDelta = 5e-4;        // smallest ρ and d relative to the largest eigenvalue
constexpr double kMaxCondition = 1e6;  // of Y Yᵀ, beyond which R is made orthonormal again
constexpr int kInitialUpdates = 10;    // the first minibatches always update

int EffectiveRank(int64_t dim, int rank) {
  const int64_t most = std::min((dim + 1) / 2, dim - 1);
  return static_cast<int>(std::clamp<int64_t>(rank, 0, std::max<int64_t>(most, 0)));
}

}  // namespace

OnlineNaturalGradient::OnlineNaturalGradient(int64_t dim, int rank, double alpha, double history_frames,
                                             int update_period)
    : dim_(dim),
      rank_(EffectiveRank(dim, rank)),
      alpha_(alpha),
      history_frames_(history_frames),
      update_period_(update_period) {
  CHECK_GT(dim, 0);
  CHECK_GT(update_period, 0);
}

// Leaves H = X Rᵀ in projected_ and returns ‖X‖², or 0 for rows that do not count.
double OnlineNaturalGradient::LookAt(ConstMatrixView x, ConstBf16View rounded) {
  if (x.cols() != dim_) Throw<ShapeError>("natural gradient for {} columns got {}", dim_, x.cols());
  UpdateAlone();
  if (rank_ == 0 || x.rows() == 0) return 0;
  const double x_squared = SumSquares(x);
  if (!(x_squared > 0) || !std::isfinite(x_squared)) return 0;
  if (minibatches_ == 0) Initialise(x);
  if (!rounded.empty() && basis_half_.empty()) RoundBasis();
  Project(x, rounded);
  return x_squared;
}

float OnlineNaturalGradient::Precondition(MatrixView x, ConstBf16View rounded) {
  const double x_squared = LookAt(x, rounded);
  if (x_squared == 0) return 1.0f;
  // The state moves on with this minibatch, but the minibatch itself is multiplied by the state before it.
  if (due()) Correlate(x, x_squared);
  ++minibatches_;
  return Multiply(x, !rounded.empty(), x_squared);
}

bool OnlineNaturalGradient::due() const {
  return rank_ > 0 && (minibatches_ < kInitialUpdates || minibatches_ % update_period_ == 0);
}

// With H = X Rᵀ and R orthonormal, ‖X̂‖² = ‖X‖² − Σ (2e − e²)·‖column of H‖².
void OnlineNaturalGradient::Observe(ConstMatrixView x, ConstBf16View rounded) {
  const double x_squared = LookAt(x, rounded);
  if (x_squared == 0) return;
  Correlate(x, x_squared);
  const std::vector<float> e = Shares();
  double removed = 0;
  for (int64_t r = 0; r < projected_.rows(); ++r) {
    for (int i = 0; i < rank_; ++i) {
      const auto share = static_cast<double>(e[static_cast<size_t>(i)]);
      const auto h = static_cast<double>(projected_(r, i));
      removed += share * (2 - share) * h * h;
    }
  }
  const double left = std::max(x_squared - removed, 1e-12 * x_squared);
  gamma_ = std::sqrt(x_squared / left);
  ++minibatches_;
}

void OnlineNaturalGradient::MultiplyColumns(MatrixView m) {
  if (rank_ == 0 || minibatches_ == 0) return;
  const std::vector<float> e = Shares();
  weighted_.Resize(m.rows(), rank_);
  Gemm(Transpose::kNo, m, Transpose::kYes, basis_, weighted_);
  for (int64_t r = 0; r < m.rows(); ++r) {
    for (int i = 0; i < rank_; ++i) weighted_(r, i) *= -static_cast<float>(gamma_) * e[static_cast<size_t>(i)];
  }
  Gemm(Transpose::kNo, weighted_, Transpose::kNo, basis_, m, {.accumulate = static_cast<float>(gamma_)});
}

void OnlineNaturalGradient::MultiplyRows(MatrixView m) {
  if (rank_ == 0 || minibatches_ == 0) return;
  const std::vector<float> e = Shares();
  weighted_.Resize(rank_, m.cols());
  Gemm(Transpose::kNo, basis_, Transpose::kNo, m, weighted_);
  for (int i = 0; i < rank_; ++i) {
    const MatrixView row(weighted_.Row(i).data(), 1, m.cols());
    Scale(-static_cast<float>(gamma_) * e[static_cast<size_t>(i)], row, row);
  }
  Gemm(Transpose::kYes, basis_, Transpose::kNo, weighted_, m, {.accumulate = static_cast<float>(gamma_)});
}

// How much of each direction of R is taken away.
std::vector<float> OnlineNaturalGradient::Shares() const {
  const double sum = std::accumulate(d_.begin(), d_.end(), 0.0);
  const double beta = rho_ * (1 + alpha_) + alpha_ * sum / static_cast<double>(dim_);
  std::vector<float> e(d_.size());
  for (size_t i = 0; i < d_.size(); ++i) e[i] = static_cast<float>(1 / (beta / d_[i] + 1));
  return e;
}

// R starts as rows of disjoint support, which are orthonormal for any shape; then it sees the first minibatch a few
// times.
void OnlineNaturalGradient::Initialise(ConstMatrixView x) {
  basis_.Resize(rank_, dim_);
  const MatrixView basis = basis_;
  rotated_.Resize(rank_, dim_);
  rotation_.Resize(rank_, rank_);
  for (int i = 0; i < rank_; ++i) {
    std::ranges::fill(basis.Row(i), 0.0f);
    double squares = 0;
    for (int64_t c = i; c < dim_; c += rank_) {
      basis(i, c) = c == i ? 1.1f : 1.0f;
      squares += double{basis(i, c)} * basis(i, c);
    }
    for (int64_t c = i; c < dim_; c += rank_) basis(i, c) /= static_cast<float>(std::sqrt(squares));
  }
  d_.assign(static_cast<size_t>(rank_), kEpsilon);
  rho_ = kEpsilon;
  const double x_squared = SumSquares(x);
  const int passes = x.rows() <= rank_ ? 1 : 3;
  for (int pass = 0; pass < passes; ++pass) {
    Project(x, {});
    Correlate(x, x_squared);
    UpdateAlone();
  }
}

void OnlineNaturalGradient::RoundBasis() {
  basis_half_.Resize(rank_, dim_);
  ConvertToBf16(1.0f, basis_, basis_half_);
}

void OnlineNaturalGradient::Project(ConstMatrixView x, ConstBf16View rounded) {
  projected_.Resize(x.rows(), rank_);
  if (rounded.empty()) {
    Gemm(Transpose::kNo, x, Transpose::kYes, basis_, projected_);
  } else {
    Gemm(Transpose::kNo, rounded, Transpose::kYes, basis_half_, projected_);
  }
}

void OnlineNaturalGradient::Correlate(ConstMatrixView x, double x_squared) {
  Gemm(Transpose::kYes, projected_, Transpose::kNo, x, rotated_);
  pending_frames_ = x.rows();
  pending_squared_ = x_squared;
}

// X̂ = X − X Rᵀ diag(e) R; returns ‖X‖/‖X̂‖.
float OnlineNaturalGradient::Multiply(MatrixView x, bool rounded, double x_squared) {
  const std::vector<float> e = Shares();
  weighted_.Resize(x.rows(), rank_);
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int i = 0; i < rank_; ++i) weighted_(r, i) = -projected_(r, i) * e[static_cast<size_t>(i)];
  }
  if (rounded) {
    weighted_half_.Resize(x.rows(), rank_);
    ConvertToBf16(1.0f, weighted_, weighted_half_);
    Gemm(Transpose::kNo, weighted_half_, Transpose::kNo, basis_half_, x, {.accumulate = 1.0f});
  } else {
    Gemm(Transpose::kNo, weighted_, Transpose::kNo, basis_, x, {.accumulate = 1.0f});
  }
  const double squared = SumSquares(x);
  gamma_ = squared > 0 ? std::sqrt(x_squared / squared) : 1.0;
  return static_cast<float>(gamma_);
}

// One step of F ← η XᵀX/N + (1−η) F, kept to rank + identity.
void OnlineNaturalGradient::Update(std::span<OnlineNaturalGradient* const> sides) {
  std::vector<OnlineNaturalGradient*> due;
  std::ranges::copy_if(sides, std::back_inserter(due), [](const auto* side) { return side->pending_frames_ > 0; });
  if (due.empty()) return;
  std::ranges::stable_sort(due, std::greater(), [](const auto* side) { return side->dim_ * side->rank_; });
  std::vector<char> repair(due.size());
  ParallelPieces(static_cast<int64_t>(due.size()), [&](int64_t i, int /*thread*/) {
    repair[static_cast<size_t>(i)] = due[static_cast<size_t>(i)]->FindSpectrum();
  });
  for (size_t i = 0; i < due.size(); ++i) due[i]->Rotate(repair[i] != 0);
}

void OnlineNaturalGradient::UpdateAlone() {
  OnlineNaturalGradient* const self[] = {this};
  Update(self);
}

// Leaves Y = R T of the new F in exact_, its rotation to the new R in rotation_, and the new d and ρ. True if R must be
// made orthonormal again.
bool OnlineNaturalGradient::FindSpectrum() {
  const auto frames = static_cast<double>(std::exchange(pending_frames_, 0));
  const double eta = std::min(0.9, 1 - std::exp(-frames / history_frames_));
  const double sum = std::accumulate(d_.begin(), d_.end(), 0.0);

  // In double: the Gram matrix of Y holds fourth powers of the data.
  DoubleMatrix& y = exact_;
  y.Resize(rank_, dim_);
  const MatrixView basis = basis_;
  for (int i = 0; i < rank_; ++i) {
    const double keep = (1 - eta) * (d_[static_cast<size_t>(i)] + rho_);
    for (int64_t c = 0; c < dim_; ++c) y(i, c) = eta / frames * rotated_(i, c) + keep * basis(i, c);
  }
  DoubleMatrix gram(rank_, rank_);
  GemmScaled(Transpose::kNo, y, Transpose::kYes, y, 1.0, 0.0, gram);
  const SymEigResult eig = SymEig(gram);

  const double floor = std::pow(rho_ * (1 - eta), 2);
  bool repair = !(eig.values.front() < kMaxCondition * std::max(eig.values.back(), floor));
  std::vector<double> root(eig.values.size());
  double root_sum = 0;
  for (size_t i = 0; i < root.size(); ++i) {
    repair = repair || eig.values[i] < floor;
    root[i] = std::sqrt(std::max(eig.values[i], floor));
    root_sum += root[i];
  }
  const double trace = eta * pending_squared_ / frames + (1 - eta) * (sum + static_cast<double>(dim_) * rho_);
  const double smallest = std::max(kEpsilon, kDelta * root.front());
  rho_ = std::max((trace - root_sum) / static_cast<double>(dim_ - rank_), smallest);
  for (size_t i = 0; i < root.size(); ++i) d_[i] = std::max(root[i] - rho_, smallest);

  for (int i = 0; i < rank_; ++i) {
    const double scale = 1 / std::max(root[static_cast<size_t>(i)], std::numeric_limits<double>::min());
    for (int j = 0; j < rank_; ++j) rotation_(i, j) = static_cast<float>(scale * eig.vectors(i, j));
  }
  for (int i = 0; i < rank_; ++i) {
    for (int64_t c = 0; c < dim_; ++c) rotated_(i, c) = static_cast<float>(y(i, c));
  }
  return repair;
}

void OnlineNaturalGradient::Rotate(bool repair) {
  Gemm(Transpose::kNo, rotation_, Transpose::kNo, rotated_, basis_);
  if (repair) Reorthogonalise();
  if (!basis_half_.empty()) RoundBasis();
}

// Gram-Schmidt, twice over each row; a row that vanishes is replaced by the next coordinate axis that does not.
void OnlineNaturalGradient::Reorthogonalise() {
  DoubleMatrix rows = ToDouble(basis_);
  int64_t axis = 0;
  for (int i = 0; i < rank_; ++i) {
    for (bool done = false; !done;) {
      double before = 0;
      for (const double v : rows.Row(i)) before += v * v;
      for (int pass = 0; pass < 2; ++pass) {
        for (int j = 0; j < i; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < dim_; ++c) dot += rows(i, c) * rows(j, c);
          for (int64_t c = 0; c < dim_; ++c) rows(i, c) -= dot * rows(j, c);
        }
      }
      double after = 0;
      for (const double v : rows.Row(i)) after += v * v;
      done = std::isfinite(after) && after > 1e-12 * before && after > 0;
      if (done) {
        for (double& v : rows.Row(i)) v /= std::sqrt(after);
      } else {
        CHECK_LT(axis, dim_);
        std::fill(rows.Row(i).begin(), rows.Row(i).end(), 0.0);
        rows(i, axis++) = 1;
      }
    }
  }
  for (int i = 0; i < rank_; ++i) {
    for (int64_t c = 0; c < dim_; ++c) basis_.view()(i, c) = static_cast<float>(rows(i, c));
  }
}

void OnlineNaturalGradient::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  const int64_t shape[] = {minibatches_, dim_, rank_};
  writer.Add(prefix + ".shape", std::span<const int64_t>(shape));
  if (minibatches_ == 0 || rank_ == 0) return;
  writer.Add(prefix + ".basis", basis_.view());
  std::vector<double> spectrum = d_;
  spectrum.push_back(rho_);
  spectrum.push_back(gamma_);
  writer.Add(prefix + ".spectrum", std::span<const double>(spectrum));
  if (pending_frames_ == 0) return;
  const double pending[] = {static_cast<double>(pending_frames_), pending_squared_};
  writer.Add(prefix + ".pending", std::span<const double>(pending));
  writer.Add(prefix + ".pending-correlation", rotated_.view());
}

void OnlineNaturalGradient::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  const std::vector<int64_t> shape = reader.ReadInts(prefix + ".shape");
  if (shape.size() != 3 || shape[1] != dim_ || shape[2] != rank_ || shape[0] < 0) {
    Throw<InputError>("{}: the natural-gradient state '{}' is not for {} dimensions and rank {}",
                      reader.path().string(), prefix, dim_, rank_);
  }
  minibatches_ = shape[0];
  pending_frames_ = 0;
  if (minibatches_ == 0 || rank_ == 0) return;
  basis_.Resize(rank_, dim_);
  reader.ReadInto(prefix + ".basis", basis_);
  d_ = reader.ReadDoubles(prefix + ".spectrum");
  if (d_.size() != static_cast<size_t>(rank_) + 2) {
    Throw<InputError>("{}: '{}.spectrum' has {} values, expected {}", reader.path().string(), prefix, d_.size(),
                      rank_ + 2);
  }
  gamma_ = d_.back();
  d_.pop_back();
  rho_ = d_.back();
  d_.pop_back();
  rotated_.Resize(rank_, dim_);
  rotation_.Resize(rank_, rank_);
  LoadPending(reader, prefix);
}

void OnlineNaturalGradient::LoadPending(const SafetensorsReader& reader, const std::string& prefix) {
  if (!reader.Has(prefix + ".pending")) return;
  const std::vector<double> pending = reader.ReadDoubles(prefix + ".pending");
  if (pending.size() != 2 || !(pending[0] >= 1)) {
    Throw<InputError>("{}: '{}.pending' is not the frames and the sum of squares of an update that was due",
                      reader.path().string(), prefix);
  }
  pending_frames_ = static_cast<int64_t>(pending[0]);
  pending_squared_ = pending[1];
  reader.ReadInto(prefix + ".pending-correlation", rotated_);
}

}  // namespace antiphon::optim
