#include "hmm/tree_builder.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "base/check.h"
#include "base/error.h"

namespace antiphon::hmm {
namespace {

// A gain below this, in nats per frame, is rounding.
constexpr double kLeastGain = 1e-6;

using StatsItem = TreeStats::value_type;
using Items = std::vector<const StatsItem*>;

GaussianStats Sum(const Items& items) {
  GaussianStats total;
  for (const StatsItem* item : items) total.Add(item->second);
  return total;
}

struct Split {
  double gain = 0;
  int position = 0;
  const std::vector<int32_t>* question = nullptr;
};

// A node while the tree grows.
struct Growing {
  TreeNode node;
  int root = 0;
  Items items;
  GaussianStats total;
  Split best;
  bool leaf = true;
};

class Builder {
 public:
  Builder(const PhoneSet& phones, const Topology& topology, const std::vector<std::vector<int32_t>>& questions,
          const TreeOptions& options, int width)
      : phones_(phones), topology_(topology), questions_(questions), options_(options), width_(width) {}

  ContextTree Build(const TreeStats& stats, TreeReport& report) {
    for (const auto& [context, unused] : stats) CHECK(width_ == 3 || context.window[2] == 0) << "a right phone";
    MakeRoots(stats);
    for (const Growing& g : nodes_) {
      report.num_frames += g.total.count();
      report.initial_log_likelihood += g.total.LogLikelihood();
    }
    const double last_gain = Grow(report);
    NumberLeaves();
    if (options_.tie_leaves) Tie(last_gain, report);
    std::map<int32_t, GaussianStats> pooled;
    for (const Growing& g : nodes_) {
      if (g.leaf) pooled[g.node.pdf_id].Add(g.total);
    }
    for (const auto& [pdf_id, total] : pooled) report.final_log_likelihood += total.LogLikelihood();
    report.num_leaves = static_cast<int>(pooled.size());

    std::vector<TreeNode> result;
    for (Growing& g : nodes_) result.push_back(std::move(g.node));
    return {width_, std::move(result), std::move(roots_)};
  }

 private:
  using GroupClass = std::pair<size_t, int>;  // base group, pdf class

  void MakeRoots(const TreeStats& stats) {
    const std::vector<std::vector<int32_t>> groups = phones_.BaseGroups();
    std::map<int32_t, size_t> group_of;
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const int32_t phone : groups[g]) group_of[phone] = g;
    }
    std::map<GroupClass, Items> items;
    for (const StatsItem& item : stats) {
      items[{group_of.at(item.first.window[1]), item.first.pdf_class}].push_back(&item);
    }
    std::map<GroupClass, int32_t> root_of;
    for (auto& [key, list] : items) {
      GaussianStats total = Sum(list);
      if (total.count() < options_.min_frames) continue;
      root_of[key] = static_cast<int32_t>(nodes_.size());
      const bool silence = phones_.IsSilence(groups[key.first].front());
      AddNode(static_cast<int>(nodes_.size()), std::move(list), std::move(total), !silence);
    }
    if (nodes_.empty()) {
      Throw<InputError>("no phone state has the {} frames that a tree needs; give it more speech or lower min-frames",
                        options_.min_frames);
    }
    ShareRoots(groups, items, root_of);
    roots_.assign(static_cast<size_t>(phones_.num_phones()) + 1, {});
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const int32_t phone : groups[g]) {
        for (int c = 0; c < topology_.NumPdfClasses(phone); ++c) {
          roots_[static_cast<size_t>(phone)].push_back(root_of.at({g, c}));
        }
      }
    }
  }

  // Gives groups without data of their own the root of the best-fed group, of the same kind (silence or not) and pdf
  // class if there is one, and hands over what data they have.
  void ShareRoots(const std::vector<std::vector<int32_t>>& groups, std::map<GroupClass, Items>& items,
                  std::map<GroupClass, int32_t>& root_of) {
    const std::map<GroupClass, int32_t> own = root_of;
    for (size_t g = 0; g < groups.size(); ++g) {
      const bool silence = phones_.IsSilence(groups[g].front());
      for (int c = 0; c < topology_.NumPdfClasses(groups[g].front()); ++c) {
        if (own.count({g, c}) > 0) continue;
        int32_t best = -1;
        std::pair<int, double> best_rank{-1, 0.0};
        for (const auto& [key, root] : own) {
          const bool same_kind = phones_.IsSilence(groups[key.first].front()) == silence;
          const std::pair<int, double> rank{2 * static_cast<int>(same_kind) + static_cast<int>(key.second == c),
                                            nodes_[static_cast<size_t>(root)].total.count()};
          if (best < 0 || rank > best_rank) {
            best = root;
            best_rank = rank;
          }
        }
        root_of[{g, c}] = best;
        Growing& shared = nodes_[static_cast<size_t>(best)];
        for (const StatsItem* item : items[{g, c}]) {
          shared.items.push_back(item);
          shared.total.Add(item->second);
        }
      }
    }
    for (Growing& g : nodes_) {
      if (g.best.question != nullptr) g.best = BestSplit(g.items, g.total);
    }
  }

  void AddNode(int root, Items items, GaussianStats total, bool may_split) {
    Growing g;
    g.root = root;
    if (may_split) g.best = BestSplit(items, total);
    g.items = std::move(items);
    g.total = std::move(total);
    nodes_.push_back(std::move(g));
  }

  Split BestSplit(const Items& items, const GaussianStats& total) const {
    Split best;
    const double whole = total.LogLikelihood();
    for (int position = 0; position < width_; ++position) {
      std::map<int32_t, GaussianStats> by_phone;
      for (const StatsItem* item : items) {
        by_phone[item->first.window[static_cast<size_t>(position)]].Add(item->second);
      }
      if (by_phone.size() < 2) continue;
      for (const std::vector<int32_t>& question : questions_) {
        GaussianStats yes;
        for (const int32_t phone : question) {
          const auto it = by_phone.find(phone);
          if (it != by_phone.end()) yes.Add(it->second);
        }
        GaussianStats no = total;
        no.Subtract(yes);
        if (yes.count() < options_.min_frames || no.count() < options_.min_frames) continue;
        const double gain = yes.LogLikelihood() + no.LogLikelihood() - whole;
        if (gain > best.gain && gain > kLeastGain * total.count()) best = {gain, position, &question};
      }
    }
    return best;
  }

  // Returns the gain of the last split, infinity if there was none.
  double Grow(TreeReport& report) {
    double last_gain = std::numeric_limits<double>::infinity();
    int leaves = static_cast<int>(nodes_.size());
    while (leaves < options_.num_leaves) {
      size_t best = nodes_.size();
      for (size_t n = 0; n < nodes_.size(); ++n) {
        if (!nodes_[n].leaf || nodes_[n].best.gain <= 0) continue;
        if (best == nodes_.size() || nodes_[n].best.gain > nodes_[best].best.gain) best = n;
      }
      if (best == nodes_.size()) break;
      last_gain = nodes_[best].best.gain;
      report.gain += last_gain;
      ++report.num_splits;
      SplitNode(best);
      ++leaves;
    }
    return last_gain;
  }

  void SplitNode(size_t n) {
    const Split split = nodes_[n].best;
    const Items items = std::move(nodes_[n].items);
    nodes_[n].leaf = false;
    Items yes;
    Items no;
    for (const StatsItem* item : items) {
      const int32_t phone = item->first.window[static_cast<size_t>(split.position)];
      const bool answer = std::binary_search(split.question->begin(), split.question->end(), phone);
      (answer ? yes : no).push_back(item);
    }
    TreeNode& node = nodes_[n].node;
    node.position = split.position;
    node.phones = *split.question;
    node.yes = static_cast<int32_t>(nodes_.size());
    node.no = node.yes + 1;
    const int root = nodes_[n].root;
    GaussianStats yes_total = Sum(yes);
    GaussianStats no_total = Sum(no);
    AddNode(root, std::move(yes), std::move(yes_total), true);
    AddNode(root, std::move(no), std::move(no_total), true);
  }

  void NumberLeaves() {
    int32_t next = 0;
    for (Growing& g : nodes_) {
      if (g.leaf) g.node.pdf_id = next++;
    }
  }

  // Ties the two leaves of a root that lose least, again and again, while the loss is below the last split's gain.
  void Tie(double threshold, TreeReport& report) {
    std::map<int, std::vector<std::vector<size_t>>> groups_of_root;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].leaf) groups_of_root[nodes_[n].root].push_back({n});
    }
    for (auto& [root, groups] : groups_of_root) {
      std::vector<GaussianStats> totals;
      std::vector<double> own;
      for (const auto& group : groups) {
        totals.push_back(nodes_[group.front()].total);
        own.push_back(totals.back().LogLikelihood());
      }
      std::vector<std::vector<double>> loss(groups.size(), std::vector<double>(groups.size(), 0.0));
      auto price = [&](size_t i, size_t j) {
        GaussianStats both = totals[i];
        both.Add(totals[j]);
        return own[i] + own[j] - both.LogLikelihood();
      };
      for (size_t i = 0; i < groups.size(); ++i) {
        for (size_t j = 0; j < i; ++j) loss[i][j] = price(i, j);
      }
      while (TieOnce(groups, totals, own, loss, price, threshold, report)) {
      }
    }
    CloseGaps();
  }

  template <class Price>
  bool TieOnce(std::vector<std::vector<size_t>>& groups, std::vector<GaussianStats>& totals, std::vector<double>& own,
               std::vector<std::vector<double>>& loss, const Price& price, double threshold, TreeReport& report) {
    std::optional<std::pair<size_t, size_t>> best;
    for (size_t i = 0; i < groups.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (groups[i].empty() || groups[j].empty() || loss[i][j] >= threshold) continue;
        if (!best || loss[i][j] < loss[best->first][best->second]) best = {i, j};
      }
    }
    if (!best) return false;
    const auto [i, j] = *best;
    report.tying_loss += loss[i][j];
    ++report.num_tied;
    for (const size_t n : groups[i]) nodes_[n].node.pdf_id = nodes_[groups[j].front()].node.pdf_id;
    groups[j].insert(groups[j].end(), groups[i].begin(), groups[i].end());
    groups[i].clear();
    totals[j].Add(totals[i]);
    own[j] = totals[j].LogLikelihood();
    for (size_t k = 0; k < groups.size(); ++k) {
      if (k != j && !groups[k].empty()) loss[std::max(k, j)][std::min(k, j)] = price(k, j);
    }
    return true;
  }

  void CloseGaps() {
    std::map<int32_t, int32_t> dense;
    for (Growing& g : nodes_) {
      if (!g.leaf) continue;
      const auto next = static_cast<int32_t>(dense.size());
      g.node.pdf_id = dense.emplace(g.node.pdf_id, next).first->second;
    }
  }

  const PhoneSet& phones_;
  const Topology& topology_;
  const std::vector<std::vector<int32_t>>& questions_;
  const TreeOptions& options_;
  int width_;
  std::vector<Growing> nodes_;
  std::vector<std::vector<int32_t>> roots_;
};

}  // namespace

ContextTree BuildTree(const TreeStats& stats, const PhoneSet& phones, const Topology& topology,
                      const std::vector<std::vector<int32_t>>& questions, const TreeOptions& options,
                      TreeReport* report, int width) {
  TreeReport local;
  TreeReport& target = report != nullptr ? *report : local;
  target = {};
  CHECK(width == 2 || width == 3) << width;
  return Builder(phones, topology, questions, options, width).Build(stats, target);
}

}  // namespace antiphon::hmm
