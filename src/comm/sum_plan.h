// Who adds up what in a long sum over ranks that stand in nodes, and in which order.
//
// The sum of world_size ranks is that of Communicator's tree: rank r takes r + 1, r + 2, r + 4 … that belong to it.
// Additions whose ranks all stand in one node are made inside it, so that what leaves a node are the sums of its
// blocks: a single one where a power of two of ranks stand in a row, as they do when mpirun fills machines one after
// the other. All other additions are made by the owner of a piece, in the tree's order: the bits do not depend on where
// the ranks stand.
//
// The values are cut into num_nodes() · columns() pieces. Piece (node, column) is owned by that node. In every node one
// rank collects each column, so that a node's ranks share the work, and a node's pieces cross the network once.
// Units: positions 0 … N − 1 in the group of ranks that sum. Threads: immutable.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace antiphon::comm {

/// Whether so many values are summed in pieces rather than whole in a tree: they must pay for more messages.
constexpr bool SumsInPieces(size_t size, int num_ranks) {
  constexpr size_t kLeast = 16384;
  constexpr size_t kLeastPiece = 512;
  return num_ranks > 1 && size >= kLeast && size >= kLeastPiece * static_cast<size_t>(num_ranks);
}

class SumPlan {
 public:
  /// `nodes`: of each position, any numbers.
  explicit SumPlan(std::span<const int> nodes);

  size_t num_ranks() const { return node_of_.size(); }
  int num_nodes() const { return static_cast<int>(ranks_.size()); }
  /// As many as the largest node has ranks.
  int columns() const { return columns_; }
  /// Positions in a node, ascending; nodes are numbered by their first one.
  const std::vector<int>& ranks(int node) const { return ranks_[Index(node)]; }
  int node_of(int position) const { return node_of_[Index(position)]; }
  int collector(int node, int column) const {
    const std::vector<int>& in_node = ranks(node);
    return in_node[Index(column) % in_node.size()];
  }
  /// First value and number of values of a piece of `size` values.
  std::pair<size_t, size_t> Piece(int node, int column, size_t size) const;

  /// Additions (to, from) of a node's ranks alone, and those between nodes, in the order in which they are made.
  const std::vector<std::pair<int, int>>& inside(int node) const { return inside_[Index(node)]; }
  const std::vector<std::pair<int, int>>& across() const { return across_; }
  /// Positions at which a node's sums stand after its additions, ascending.
  const std::vector<int>& blocks(int node) const { return blocks_[Index(node)]; }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }
  void OrderAdditions();

  std::vector<int> node_of_;
  std::vector<std::vector<int>> ranks_;
  std::vector<std::vector<std::pair<int, int>>> inside_;
  std::vector<std::pair<int, int>> across_;
  std::vector<std::vector<int>> blocks_;
  int columns_ = 0;
};

}  // namespace antiphon::comm
