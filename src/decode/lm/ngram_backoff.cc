#include "decode/lm/ngram_backoff.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace antiphon::decode {
namespace {

using Node = NgramModel::Node;

std::vector<int32_t> WordsOf(const NgramModel& model, size_t node) {
  std::vector<int32_t> words;
  for (auto n = static_cast<int32_t>(node); n != NgramModel::kRoot; n = model.nodes()[n].parent) {
    words.push_back(model.nodes()[n].word);
  }
  std::reverse(words.begin(), words.end());
  return words;
}

// The kept n-grams; `backoffs` by node. Fills `old_nodes` with the nodes that the result's come from.
NgramModel Copy(const NgramModel& model, const std::vector<bool>& kept, const std::vector<float>& backoffs,
                std::vector<size_t>* old_nodes) {
  int order = 1;
  for (size_t i = 1; i < kept.size(); ++i) {
    if (kept[i]) order = std::max(order, static_cast<int>(model.nodes()[i].depth));
  }
  NgramModel copy(order);
  for (const std::string& word : model.words()) copy.AddWord(word);
  old_nodes->assign(1, NgramModel::kRoot);
  for (int depth = 1; depth <= order; ++depth) {
    for (size_t i = 1; i < kept.size(); ++i) {
      if (!kept[i] || model.nodes()[i].depth != depth) continue;
      copy.AddNgram(WordsOf(model, i), model.nodes()[i].log_prob, backoffs[i]);
      old_nodes->push_back(i);
    }
  }
  copy.Finish();
  return copy;
}

double ShorterProbability(const NgramModel& model, size_t node, const std::vector<double>& backoffs) {
  const auto& nodes = model.nodes();
  // The longest n-gram that ends as this one does; histories on the way to it only back off.
  const Node& found = nodes[nodes[node].backoff_node];
  double p = std::exp(static_cast<double>(found.log_prob));
  for (int32_t h = nodes[nodes[node].parent].backoff_node; h != found.parent; h = nodes[h].backoff_node) {
    p *= backoffs[h];
  }
  return p;
}

}  // namespace

void RequireProbabilities(const NgramModel& model) {
  constexpr double kSlack = 0.01;
  const auto& nodes = model.nodes();
  std::vector<double> sums(nodes.size(), 0.0);
  // Nothing is before the begin of a sentence: some write log 1 there, others log 0.
  const int32_t begin = model.WordId("<s>");
  for (size_t i = 1; i < nodes.size(); ++i) {
    if (nodes[i].depth == 1 && nodes[i].word == begin) continue;
    sums[nodes[i].parent] += std::exp(static_cast<double>(nodes[i].log_prob));
  }
  if (std::abs(sums[NgramModel::kRoot] - 1.0) > kSlack) {
    Throw<InputError>("the probabilities of the 1-grams sum to {:.4f}, not to 1", sums[NgramModel::kRoot]);
  }
  for (size_t i = 1; i < nodes.size(); ++i) {
    if (sums[i] <= 1.0 + kSlack) continue;
    std::string history;
    for (const int32_t word : WordsOf(model, i)) history += (history.empty() ? "" : " ") + model.words()[word];
    Throw<InputError>("the probabilities of the n-grams behind '{}' sum to {:.4f}, more than 1", history, sums[i]);
  }
}

std::vector<double> ShorterProbabilities(const NgramModel& model, const std::vector<double>& backoffs) {
  std::vector<double> shorter(model.nodes().size(), 1.0);
  for (size_t i = 1; i < shorter.size(); ++i) {
    if (model.nodes()[i].depth > 1) shorter[i] = ShorterProbability(model, i, backoffs);
  }
  return shorter;
}

NgramModel WithNewBackoffs(const NgramModel& model, const std::vector<bool>& kept, const std::vector<bool>& touched) {
  std::vector<float> log_backoffs;
  for (const Node& node : model.nodes()) log_backoffs.push_back(node.log_backoff);
  std::vector<size_t> old_nodes;
  const NgramModel rest = Copy(model, kept, log_backoffs, &old_nodes);
  const auto& nodes = rest.nodes();
  std::vector<double> backoffs, own(nodes.size()), shorter(nodes.size());
  for (const Node& node : nodes) backoffs.push_back(std::exp(static_cast<double>(node.log_backoff)));
  for (int depth = 1; depth < rest.order(); ++depth) {
    std::fill(own.begin(), own.end(), 1.0);
    std::fill(shorter.begin(), shorter.end(), 1.0);
    for (size_t i = 1; i < nodes.size(); ++i) {
      if (nodes[i].depth != depth + 1 || !touched[old_nodes[nodes[i].parent]]) continue;
      own[nodes[i].parent] -= std::exp(static_cast<double>(nodes[i].log_prob));
      shorter[nodes[i].parent] -= ShorterProbability(rest, i, backoffs);
    }
    for (size_t i = 1; i < nodes.size(); ++i) {
      if (nodes[i].depth != depth || !touched[old_nodes[i]]) continue;
      // Where the shorter history has nothing left for other words, there is nothing to weigh.
      const bool weighs = nodes[i].has_children && shorter[i] > 1e-9;
      backoffs[i] = weighs ? std::max(own[i], 0.0) / shorter[i] : 1.0;
      log_backoffs[old_nodes[i]] = std::max(static_cast<float>(std::log(backoffs[i])), NgramModel::kImpossible);
    }
  }
  return Copy(model, kept, log_backoffs, &old_nodes);
}

}  // namespace antiphon::decode
