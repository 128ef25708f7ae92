// A small speaker-adaptive GMM model of two phones for tests: deltas, then Gaussians of random means.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "hmm/gmm_fmllr.h"
#include "hmm/gmm_model.h"
#include "random_matrix.h"

namespace antiphon::testing {

inline hmm::GmmSet SmallGmmSet(int pdfs, int dim, uint64_t seed, float variance = 1.0F) {
  std::vector<int32_t> first;
  for (int pdf = 0; pdf <= pdfs; ++pdf) first.push_back(pdf);
  Matrix variances(pdfs, dim);
  for (int64_t i = 0; i < variances.size(); ++i) variances.data()[i] = variance;
  return {std::move(first), std::vector<float>(static_cast<size_t>(pdfs), 1.0F), RandomMatrix(pdfs, dim, seed),
          std::move(variances)};
}

/// Base features of `dim` values.
inline hmm::GmmModel SmallAdaptiveModel(int dim, float variance = 1.0F) {
  const hmm::PhoneSet phones({"A", "B"}, {"SIL"}, false);
  const hmm::Topology topology(phones, {});
  hmm::GmmModel model;
  model.stage = "sat";
  model.hmm = hmm::HmmModel(phones, topology, hmm::ContextTree::Monophone(topology));
  model.transform = hmm::FeatureTransform::Deltas(dim);
  model.gmm = SmallGmmSet(model.hmm.num_pdfs(), 3 * dim, 1, variance);
  model.first_pass = SmallGmmSet(model.hmm.num_pdfs(), 3 * dim, 2, variance);
  model.lexicon = "A A\n";
  return model;
}

/// `base` in parts of so many rows; both must outlive it.
inline hmm::SpeakerUtterance InParts(const Matrix& base, std::span<const int32_t> alignment, int64_t rows = 1 << 30) {
  const auto read = [&base, rows](const hmm::UseBaseFeatures& use) {
    for (int64_t begin = 0; begin < base.rows(); begin += rows) {
      const int64_t count = std::min(rows, base.rows() - begin);
      use(base.view().Rows(begin, count), begin + count == base.rows());
    }
  };
  return {read, alignment};
}

}  // namespace antiphon::testing
