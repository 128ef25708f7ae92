// A small chain model, and the definitions that the fast passes are measured by.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "chain/chain_data.h"
#include "chain/denominator.h"
#include "math/matrix.h"

namespace antiphon::chain::testing {

/// Phones SIL = 1, A = 2, B = 3, C = 4; entry and self-loop ask about the left phone.
inline hmm::HmmModel ToyModel() {
  const hmm::PhoneSet phones({"A", "B", "C"}, {"SIL"}, false);
  std::vector<hmm::TreeNode> nodes;
  std::vector<std::vector<int32_t>> roots(1);
  int32_t num_pdfs = 0;
  for (int32_t phone = 1; phone <= phones.num_phones(); ++phone) {
    roots.emplace_back();
    for (int32_t c = 0; c < 2; ++c) {
      const auto root = static_cast<int32_t>(nodes.size());
      roots.back().push_back(root);
      if (phone == 1) {
        nodes.emplace_back().pdf_id = num_pdfs++;
        continue;
      }
      hmm::TreeNode& node = nodes.emplace_back();
      node.phones = {c, 2 + c, 3};
      std::sort(node.phones.begin(), node.phones.end());
      node.yes = root + 1;
      node.no = root + 2;
      for (int leaf = 0; leaf < 2; ++leaf) nodes.emplace_back().pdf_id = num_pdfs++;
    }
  }
  return {phones, hmm::Topology::Chain(phones), hmm::ContextTree(2, nodes, roots)};
}

inline std::vector<std::vector<int32_t>> ToySequences() {
  return {{1, 2, 3, 4, 1}, {1, 3, 3, 2, 1}, {2, 2, 2, 4}, {1, 4, 2, 3, 1, 2, 1}, {3, 4}, {1}, {2, 2, 2, 3, 3, 1}};
}

/// Each phone of sequence i takes 4 + (i + position) % 5 input frames.
inline Reference TimedReference(const std::vector<int32_t>& phones, int i) {
  Reference reference{phones, {}};
  int32_t end = 0;
  for (size_t p = 0; p < phones.size(); ++p) {
    end += 4 + (i + static_cast<int>(p)) % 5;
    reference.ends.push_back(end);
  }
  return reference;
}

inline ChainData ToyData(const hmm::PhoneNgramOptions& options = {4, 2}) {
  hmm::HmmModel model = ToyModel();
  auto graph = DenominatorGraph::Build(model, hmm::EstimatePhoneNgrams(ToySequences(), options));
  std::map<std::string, Reference> references;
  const auto sequences = ToySequences();
  for (size_t i = 0; i < sequences.size(); ++i) {
    references["utt" + std::to_string(i)] = TimedReference(sequences[i], static_cast<int>(i));
  }
  return {std::move(model), std::move(graph), References(std::move(references)), 3};
}

Matrix RandomOutputs(int64_t rows, int64_t cols, double scale, uint64_t seed);

using Score = std::function<double(int, int32_t)>;

/// Σ over all walks of so many outputs, each followed to its end: no sums are shared.
inline double DenominatorByEnumeration(const DenominatorGraph& graph, int outputs, double leak, const Score& score) {
  const auto states = graph.states();
  const std::function<double(int32_t, int)> from = [&](int32_t state, int t) {
    if (t == outputs) return 1.0;
    double sum = 0;
    const auto arrive = [&](int32_t to, double weight) {
      sum += weight * from(to, t + 1);
      if (t + 1 == outputs || leak == 0) return;
      for (size_t s = 0; s < states.size(); ++s) {
        sum += weight * leak * static_cast<double>(states[s].initial) * from(static_cast<int32_t>(s), t + 1);
      }
    };
    const int32_t loop = states[static_cast<size_t>(state)].loop_pdf;
    if (loop >= 0) arrive(state, std::exp(score(t, loop)));
    for (const DenominatorGraph::Arc& arc : graph.ArcsFrom(state)) {
      arrive(arc.to, static_cast<double>(arc.probability) * std::exp(score(t, arc.pdf_id)));
    }
    return sum;
  };
  double sum = 0;
  for (size_t s = 0; s < states.size(); ++s) {
    sum += static_cast<double>(states[s].initial) * from(static_cast<int32_t>(s), 0);
  }
  return std::log(sum);
}

/// Five states in which some arcs share target and pdf-id, others only one of them.
inline DenominatorGraph SmallGraph() {
  return {{{0, -1, 0.1F}, {1, 0, 0.3F}, {2, 2, 0.2F}, {2, 3, 0.15F}, {3, 5, 0.25F}},
          {{0, 1, 1, 0.5F},
           {0, 2, 4, 0.5F},
           {1, 2, 4, 0.7F},
           {1, 4, 6, 0.2F},
           {2, 1, 1, 0.6F},
           {2, 3, 4, 0.3F},
           {3, 3, 1, 0.4F},
           {3, 1, 1, 0.5F},
           {4, 3, 4, 0.9F},
           {4, 1, 0, 0.05F}},
          7};
}

}  // namespace antiphon::chain::testing
