// A lexicon of a few words that are easily confused, and models of its phones.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/random.h"
#include "hmm/hmm_model.h"
#include "hmm/lexicon.h"

namespace antiphon::decode {

// SEE and SEA sound alike; A begins AT begins ATE; A has two pronunciations.
inline constexpr const char* kLexicon = "A AH\nA EY\nAT AH T\nATE AH T S\nSEE S IY\nSEA S IY\n";

inline hmm::Lexicon ToyLexicon(bool position_dependent = false) {
  hmm::LexiconOptions options;
  options.silence_phones = {"SIL"};
  options.position_dependent = position_dependent;
  return hmm::Lexicon::Parse(kLexicon, "lexicon.txt", options);
}

// A tree that asks random questions about both neighbours; with windows of two phones the topology of chain models.
inline hmm::HmmModel ToyModel(const hmm::Lexicon& lexicon, int width) {
  hmm::TopologyOptions options;
  options.num_states = 2;
  options.num_silence_states = 2;
  const hmm::Topology topology =
      width == 2 ? hmm::Topology::Chain(lexicon.phones()) : hmm::Topology(lexicon.phones(), options);
  if (width == 1) return {lexicon.phones(), topology, hmm::ContextTree::Monophone(topology)};
  Rng rng(5);
  std::vector<hmm::TreeNode> nodes;
  std::vector<std::vector<int32_t>> roots(1);
  int32_t num_pdfs = 0;
  for (int32_t phone = 1; phone <= lexicon.phones().num_phones(); ++phone) {
    roots.emplace_back();
    for (int c = 0; c < topology.NumPdfClasses(phone); ++c) {
      const std::function<int32_t(int)> grow = [&](int depth) {
        const auto id = static_cast<int32_t>(nodes.size());
        nodes.emplace_back();
        if (depth == 0 || lexicon.phones().IsSilence(phone)) {
          nodes[id].pdf_id = num_pdfs++;
          return id;
        }
        hmm::TreeNode node;
        node.position = rng.Below(2) == 0 || width == 2 ? 0 : 2;
        for (int32_t p = 0; p <= lexicon.phones().num_phones(); ++p) {
          if (rng.Below(2) == 0) node.phones.push_back(p);
        }
        node.yes = grow(depth - 1);
        node.no = grow(depth - 1);
        nodes[id] = node;
        return id;
      };
      roots.back().push_back(grow(2));
    }
  }
  return {lexicon.phones(), topology, hmm::ContextTree(width, nodes, roots)};
}

}  // namespace antiphon::decode
