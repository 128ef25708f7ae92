#include "comm/sum_plan.h"

#include <algorithm>
#include <map>

namespace antiphon::comm {

SumPlan::SumPlan(std::span<const int> nodes) {
  std::map<int, int> numbers;
  for (size_t r = 0; r < nodes.size(); ++r) {
    const int node = numbers.emplace(nodes[r], num_nodes()).first->second;
    if (node == num_nodes()) ranks_.emplace_back();
    node_of_.push_back(node);
    ranks_[Index(node)].push_back(static_cast<int>(r));
  }
  for (const std::vector<int>& in_node : ranks_) columns_ = std::max(columns_, static_cast<int>(in_node.size()));
  OrderAdditions();
}

// Additions at distance d bring together the blocks of r … r + d − 1 and r + d … r + 2d − 1. Whether one is made inside
// a node is known from whether both of its blocks were.
void SumPlan::OrderAdditions() {
  const int size = static_cast<int>(node_of_.size());
  inside_.resize(ranks_.size());
  blocks_.resize(ranks_.size());
  std::vector<bool> whole(node_of_.size(), true);   // the block that begins here is of one node
  std::vector<bool> added(node_of_.size(), false);  // inside its node
  for (int distance = 1; distance < size; distance *= 2) {
    for (int to = 0; to + distance < size; to += 2 * distance) {
      const int from = to + distance;
      const bool here = whole[Index(to)] && whole[Index(from)] && node_of(to) == node_of(from);
      whole[Index(to)] = here;
      added[Index(from)] = here;
      (here ? inside_[Index(node_of(to))] : across_).emplace_back(to, from);
    }
  }
  for (int r = 0; r < size; ++r) {
    if (!added[Index(r)]) blocks_[Index(node_of(r))].push_back(r);
  }
}

std::pair<size_t, size_t> SumPlan::Piece(int node, int column, size_t size) const {
  const size_t pieces = ranks_.size() * Index(columns_);
  const size_t k = Index(node) * Index(columns_) + Index(column);
  const size_t first = size * k / pieces;
  return {first, size * (k + 1) / pieces - first};
}

}  // namespace antiphon::comm
