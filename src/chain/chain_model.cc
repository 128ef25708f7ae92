#include "chain/chain_model.h"

#include <algorithm>

#include "base/check.h"
#include "hmm/questions.h"

namespace antiphon::chain {
namespace {

// Outputs of speech per leaf: five hours give some 2500, fewer than the mixtures' tree of as much speech has.
constexpr double kOutputsPerLeaf = 200;
constexpr double kMostLeaves = 8000;

int LeavesFor(const hmm::TreeStats& stats, const hmm::PhoneSet& phones) {
  double speech = 0;
  for (const auto& [context, s] : stats) speech += phones.IsSilence(context.window[1]) ? 0 : s.count();
  const double roots = 2.0 * static_cast<double>(phones.BaseGroups().size());
  return static_cast<int>(std::clamp(speech / kOutputsPerLeaf, std::min(roots, kMostLeaves), kMostLeaves));
}

}  // namespace

bool AddChainTreeStats(const Reference& reference, ConstMatrixView features, int shift, int step,
                       hmm::TreeStats* stats) {
  CHECK_LE(reference.num_frames(), features.rows());
  const auto ends = OutputEnds(reference, shift, step);
  if (!ends) return false;
  int32_t begin = 0;
  for (size_t i = 0; i < reference.phones.size(); ++i) {
    const int32_t left = i > 0 ? reference.phones[i - 1] : 0;
    for (int32_t u = begin; u < (*ends)[i]; ++u) {
      const hmm::TreeContext context{{left, reference.phones[i], 0}, u == begin ? 0 : 1};
      (*stats).try_emplace(context, features.cols()).first->second.Accumulate(features.Row(u * step + shift));
    }
    begin = (*ends)[i];
  }
  return true;
}

hmm::HmmModel BuildChainModel(const hmm::PhoneSet& phones, const hmm::TreeStats& stats, const ChainTreeOptions& options,
                              hmm::TreeReport* report) {
  const hmm::Topology topology = hmm::Topology::Chain(phones);
  hmm::TreeOptions tree;
  tree.num_leaves = options.num_leaves > 0 ? options.num_leaves : LeavesFor(stats, phones);
  tree.min_frames = options.min_frames;
  return {phones, topology,
          hmm::BuildTree(stats, phones, topology, hmm::FindQuestions(stats, phones), tree, report, 2)};
}

}  // namespace antiphon::chain
