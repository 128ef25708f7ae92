#include "decode/lm/ngram_prune.h"

#include <algorithm>
#include <cmath>

#include "decode/lm/ngram_backoff.h"

namespace antiphon::decode {
namespace {

using Node = NgramModel::Node;

// How often each history occurs, by the model. A sentence begins as often as one ends.
std::vector<double> LogHistoryProbabilities(const NgramModel& model) {
  const auto& nodes = model.nodes();
  const int32_t begin = model.WordId("<s>"), end = model.WordId("</s>");
  std::vector<double> log_probs(nodes.size(), 0.0);
  for (size_t i = 1; i < nodes.size(); ++i) {
    const bool begins = nodes[i].parent == NgramModel::kRoot && nodes[i].word == begin && end >= 0;
    const float log_prob = begins ? model.Step(NgramModel::kRoot, end).log_prob : nodes[i].log_prob;
    log_probs[i] = log_probs[nodes[i].parent] + log_prob;
  }
  return log_probs;
}

// Histories whose words, or whose shorter history's words, become fewer.
std::vector<bool> Touched(const NgramModel& model, const std::vector<bool>& kept) {
  const auto& nodes = model.nodes();
  std::vector<bool> touched(nodes.size(), false);
  for (size_t i = 1; i < nodes.size(); ++i) {
    if (kept[i]) continue;
    touched[i] = true;
    if (nodes[i].parent != NgramModel::kRoot) touched[nodes[i].parent] = true;
  }
  for (int depth = 2; depth < model.order(); ++depth) {
    for (size_t i = 1; i < nodes.size(); ++i) {
      if (nodes[i].depth == depth && touched[nodes[i].backoff_node]) touched[i] = true;
    }
  }
  return touched;
}

}  // namespace

std::vector<double> RemovalCosts(const NgramModel& model) {
  RequireProbabilities(model);
  const auto& nodes = model.nodes();
  std::vector<double> backoffs;
  for (const Node& node : nodes) backoffs.push_back(std::exp(static_cast<double>(node.log_backoff)));
  const std::vector<double> shorter = ShorterProbabilities(model, backoffs);
  // By history: what is left for the words that it does not list, of its own probability and of the shorter history's.
  std::vector<double> own_left(nodes.size(), 1.0), shorter_left(nodes.size(), 1.0);
  for (size_t i = 1; i < nodes.size(); ++i) {
    own_left[nodes[i].parent] -= std::exp(static_cast<double>(nodes[i].log_prob));
    shorter_left[nodes[i].parent] -= shorter[i];
  }
  const std::vector<double> log_histories = LogHistoryProbabilities(model);
  std::vector<double> costs(nodes.size(), 0.0);
  for (size_t i = 1; i < nodes.size(); ++i) {
    const int32_t h = nodes[i].parent;
    if (h == NgramModel::kRoot) continue;
    const double p = std::exp(static_cast<double>(nodes[i].log_prob));
    // Of a model that is rounded, nothing may be a little less than nothing.
    const double own = std::max(own_left[h], 0.0);
    const double backoff = (own + p) / (std::max(shorter_left[h], 0.0) + shorter[i]);
    double cost = p * std::log(p / (backoff * shorter[i]));
    if (own > 0) cost += own * (nodes[h].log_backoff - std::log(backoff));
    costs[i] = std::exp(log_histories[h]) * std::max(cost, 0.0);
  }
  return costs;
}

NgramModel PruneNgrams(const NgramModel& model, double threshold) {
  const std::vector<double> costs = RemovalCosts(model);
  const auto& nodes = model.nodes();
  std::vector<bool> kept(nodes.size(), true), begins_longer(nodes.size(), false);
  for (int depth = model.order(); depth > 1; --depth) {
    for (size_t i = 1; i < nodes.size(); ++i) {
      if (nodes[i].depth != depth) continue;
      kept[i] = begins_longer[i] || std::expm1(costs[i]) >= threshold;
      if (kept[i]) begins_longer[nodes[i].parent] = true;
    }
  }
  return WithNewBackoffs(model, kept, Touched(model, kept));
}

}  // namespace antiphon::decode
