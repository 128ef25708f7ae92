#include "hmm/tree.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace antiphon::hmm {

ContextTree::ContextTree(int width, std::vector<TreeNode> nodes, std::vector<std::vector<int32_t>> roots)
    : width_(width), nodes_(std::move(nodes)), roots_(std::move(roots)) {
  CheckAndIndex();
}

ContextTree ContextTree::Monophone(const Topology& topology) {
  std::vector<TreeNode> nodes;
  std::vector<std::vector<int32_t>> roots(1);
  for (int32_t phone = 1; phone <= topology.num_phones(); ++phone) {
    std::vector<int32_t>& classes = roots.emplace_back();
    for (int c = 0; c < topology.NumPdfClasses(phone); ++c) {
      const auto index = static_cast<int32_t>(nodes.size());
      classes.push_back(index);
      nodes.emplace_back().pdf_id = index;
    }
  }
  return {1, std::move(nodes), std::move(roots)};
}

void ContextTree::CheckAndIndex() {
  if (width_ < 1 || width_ > 3) Throw<InputError>("a context tree of width {}; 1, 2 and 3 are known", width_);
  if (roots_.empty()) throw InputError("a context tree without phones");
  const auto num_nodes = static_cast<int32_t>(nodes_.size());
  std::set<int32_t> pdfs;
  answers_.assign(nodes_.size(), {});
  std::vector<bool> has_parent(nodes_.size(), false);
  for (int32_t n = 0; n < num_nodes; ++n) {
    const TreeNode& node = nodes_[static_cast<size_t>(n)];
    if (node.pdf_id >= 0) {
      pdfs.insert(node.pdf_id);
      continue;
    }
    // Children after their parent: no cycles.
    if (node.yes <= n || node.no <= n || node.yes >= num_nodes || node.no >= num_nodes || node.position < 0 ||
        node.position >= width_)
      Throw<InputError>("context tree: node {} asks position {} and leads to {} and {} of {}", n, node.position,
                        node.yes, node.no, num_nodes);
    // One parent each: walking down all branches of a graph that only looks like a tree would never end.
    for (const int32_t child : {node.yes, node.no}) {
      if (has_parent[static_cast<size_t>(child)]) Throw<InputError>("context tree: node {} has two parents", child);
      has_parent[static_cast<size_t>(child)] = true;
    }
    std::vector<bool>& answer = answers_[static_cast<size_t>(n)];
    answer.assign(roots_.size(), false);
    for (const int32_t phone : node.phones) {
      if (phone < 0 || phone > num_phones())
        Throw<InputError>("context tree: node {} asks for phone {} of {}", n, phone, num_phones());
      answer[static_cast<size_t>(phone)] = true;
    }
  }
  for (size_t phone = 1; phone < roots_.size(); ++phone) {
    if (roots_[phone].empty()) Throw<InputError>("context tree: phone {} has no pdf classes", phone);
    for (const int32_t root : roots_[phone]) {
      if (root < 0 || root >= num_nodes)
        Throw<InputError>("context tree: phone {} has root {} of {}", phone, root, num_nodes);
    }
  }
  num_pdfs_ = static_cast<int>(pdfs.size());
  if (!pdfs.empty() && *pdfs.rbegin() != num_pdfs_ - 1)
    Throw<InputError>("context tree: pdf-ids run up to {}, but there are {} of them", *pdfs.rbegin(), num_pdfs_);
}

int32_t ContextTree::Pdf(std::span<const int32_t> window, int pdf_class) const {
  DCHECK(static_cast<int>(window.size()) == width_);
  const std::vector<int32_t>& classes = roots_[static_cast<size_t>(window[static_cast<size_t>(central())])];
  CHECK(pdf_class >= 0 && static_cast<size_t>(pdf_class) < classes.size()) << "pdf class " << pdf_class;
  auto n = static_cast<size_t>(classes[static_cast<size_t>(pdf_class)]);
  while (nodes_[n].pdf_id < 0) {
    const auto phone = static_cast<size_t>(window[static_cast<size_t>(nodes_[n].position)]);
    n = static_cast<size_t>(answers_[n][phone] ? nodes_[n].yes : nodes_[n].no);
  }
  return nodes_[n].pdf_id;
}

// Calls visit(pdf-id, windows) for each leaf that some of the windows reach, with those windows.
template <class Visit>
void ContextTree::WalkLeaves(int32_t root, const Windows& windows, const Visit& visit) const {
  std::vector<std::pair<int32_t, Windows>> open = {{root, windows}};
  while (!open.empty()) {
    const auto [node, here] = std::move(open.back());
    open.pop_back();
    const auto n = static_cast<size_t>(node);
    if (nodes_[n].pdf_id >= 0) {
      visit(nodes_[n].pdf_id, here);
      continue;
    }
    const auto position = static_cast<size_t>(nodes_[n].position);
    for (const bool answer : {true, false}) {
      Windows left = here;
      bool any = false;
      for (size_t phone = 0; phone < answers_[n].size(); ++phone) {
        if (answers_[n][phone] != answer) left[position][phone] = false;
        any = any || left[position][phone];
      }
      if (any) open.emplace_back(answer ? nodes_[n].yes : nodes_[n].no, std::move(left));
    }
  }
}

std::vector<int32_t> ContextTree::PdfsOf(int32_t phone, int pdf_class) const {
  std::vector<int32_t> pdfs;
  for (const auto& [pdf, same] : PdfPairsOf(phone, pdf_class, pdf_class)) pdfs.push_back(pdf);
  return pdfs;
}

std::vector<std::pair<int32_t, int32_t>> ContextTree::PdfPairsOf(int32_t phone, int pdf_class, int other_class) const {
  const std::vector<int32_t>& classes = roots_[static_cast<size_t>(phone)];
  Windows all(static_cast<size_t>(width_), std::vector<bool>(roots_.size(), true));
  // The central phone is known; its questions (under shared roots) have one answer.
  std::vector<bool>& centre = all[static_cast<size_t>(central())];
  centre.assign(roots_.size(), false);
  centre[static_cast<size_t>(phone)] = true;
  std::set<std::pair<int32_t, int32_t>> pairs;
  WalkLeaves(classes.at(static_cast<size_t>(pdf_class)), all, [&](int32_t pdf, const Windows& windows) {
    if (pdf_class == other_class) {
      pairs.emplace(pdf, pdf);
      return;
    }
    WalkLeaves(classes.at(static_cast<size_t>(other_class)), windows,
               [&](int32_t other, const Windows&) { pairs.emplace(pdf, other); });
  });
  return {pairs.begin(), pairs.end()};
}

}  // namespace antiphon::hmm
