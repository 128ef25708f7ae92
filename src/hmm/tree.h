// The context dependency: which tied distribution (pdf-id) a phone in its context emits from.
//
// One root per (central phone, pdf class), possibly shared between phones; inner nodes ask whether the phone at a
// window position belongs to a set; leaves hold pdf-ids, which run from 0 without gaps. A window holds `width` phone
// ids with the central phone at `central`: the phone alone, left and phone, or left, phone and right; 0 stands for
// "nothing there" (the utterance's ends). Threads: const methods
// may run together. Errors: InputError for a tree that does not hold together.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "hmm/topology.h"

namespace antiphon::hmm {

struct TreeNode {
  int32_t pdf_id = -1;          // ≥ 0: a leaf
  int32_t position = 0;         // inner node: window position asked about
  std::vector<int32_t> phones;  // sorted ids that answer yes; may include 0
  int32_t yes = -1;             // node indices
  int32_t no = -1;
  bool operator==(const TreeNode&) const = default;
};

class ContextTree {
 public:
  ContextTree() = default;
  /// roots[phone][pdf_class] is a node index; phone 0 is empty. width 1, 2 or 3, central = width / 2.
  ContextTree(int width, std::vector<TreeNode> nodes, std::vector<std::vector<int32_t>> roots);
  /// One pdf-id per (phone, pdf class), numbered in that order.
  static ContextTree Monophone(const Topology& topology);

  int width() const { return width_; }
  int central() const { return width_ / 2; }
  int num_pdfs() const { return num_pdfs_; }
  int num_phones() const { return static_cast<int>(roots_.size()) - 1; }
  int NumPdfClasses(int32_t phone) const { return static_cast<int>(roots_[static_cast<size_t>(phone)].size()); }

  /// window.size() == width(); the central phone must be one of the tree's.
  int32_t Pdf(std::span<const int32_t> window, int pdf_class) const;
  /// All pdf-ids that some context can give, ascending.
  std::vector<int32_t> PdfsOf(int32_t phone, int pdf_class) const;
  /// What one context gives two pdf classes of the phone, for all contexts, without repetition, ascending.
  std::vector<std::pair<int32_t, int32_t>> PdfPairsOf(int32_t phone, int pdf_class, int other_class) const;

  const std::vector<TreeNode>& nodes() const { return nodes_; }
  const std::vector<std::vector<int32_t>>& roots() const { return roots_; }
  bool operator==(const ContextTree& other) const {
    return width_ == other.width_ && nodes_ == other.nodes_ && roots_ == other.roots_;
  }

 private:
  // For each window position, which phones are still possible.
  using Windows = std::vector<std::vector<bool>>;
  template <class Visit>
  void WalkLeaves(int32_t root, const Windows& windows, const Visit& visit) const;
  void CheckAndIndex();

  int width_ = 1;
  int num_pdfs_ = 0;
  std::vector<TreeNode> nodes_;
  std::vector<std::vector<int32_t>> roots_ = {{}};
  std::vector<std::vector<bool>> answers_;  // per node: phone id → yes
};

}  // namespace antiphon::hmm
