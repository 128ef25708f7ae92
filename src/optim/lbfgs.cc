#include "optim/lbfgs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace antiphon::optim {
namespace {

double InnerProduct(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

void LbfgsPreconditioner::Offer(std::span<const double> s, std::span<const double> y) {
  if (count_++ % cycle_ != 0) return;
  const double sy = InnerProduct(s, y);
  if (!(sy > 0)) return;
  if (offered_.size() == max_pairs_) {
    size_t kept = 0;
    for (size_t i = 0; i < offered_.size(); i += 2, ++kept) {
      if (kept != i) offered_[kept] = std::move(offered_[i]);
    }
    offered_.resize(max_pairs_ > 1 ? kept : 0);
    cycle_ *= 2;
  }
  offered_.push_back({{s.begin(), s.end()}, {y.begin(), y.end()}, sy});
}

void LbfgsPreconditioner::Advance() {
  if (!offered_.empty()) used_ = std::exchange(offered_, {});
  cycle_ = 1;
  count_ = 0;
}

void LbfgsPreconditioner::Apply(std::span<const double> r, std::span<double> out) const {
  CHECK_EQ(r.size(), out.size());
  std::copy(r.begin(), r.end(), out.begin());
  if (used_.empty()) return;
  std::vector<double> alpha(used_.size());
  for (size_t k = used_.size(); k-- > 0;) {
    const Pair& pair = used_[k];
    alpha[k] = InnerProduct(pair.s, out) / pair.sy;
    for (size_t i = 0; i < out.size(); ++i) out[i] -= alpha[k] * pair.y[i];
  }
  const Pair& newest = used_.back();
  const double scale = newest.sy / InnerProduct(newest.y, newest.y);
  for (double& v : out) v *= scale;
  for (size_t k = 0; k < used_.size(); ++k) {
    const Pair& pair = used_[k];
    const double beta = InnerProduct(pair.y, out) / pair.sy;
    for (size_t i = 0; i < out.size(); ++i) out[i] += (alpha[k] - beta) * pair.s[i];
  }
}

void LbfgsPreconditioner::Reset() {
  used_.clear();
  offered_.clear();
  Advance();
}

void LbfgsPreconditioner::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  // What the next run will use.
  const std::vector<Pair>& pairs = offered_.empty() ? used_ : offered_;
  for (size_t k = 0; k < pairs.size(); ++k) {
    writer.Add(fmt::format("{}.s.{}", prefix, k), std::span<const double>(pairs[k].s));
    writer.Add(fmt::format("{}.y.{}", prefix, k), std::span<const double>(pairs[k].y));
  }
}

void LbfgsPreconditioner::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  Reset();
  for (size_t k = 0; reader.Has(fmt::format("{}.s.{}", prefix, k)); ++k) {
    Pair pair{reader.ReadDoubles(fmt::format("{}.s.{}", prefix, k)),
              reader.ReadDoubles(fmt::format("{}.y.{}", prefix, k)), 0};
    if (pair.s.size() != pair.y.size()) {
      Throw<InputError>("'{}': the vectors of pair {} of '{}' have different lengths", reader.path().string(), k,
                        prefix);
    }
    pair.sy = InnerProduct(pair.s, pair.y);
    used_.push_back(std::move(pair));
  }
}

}  // namespace antiphon::optim
