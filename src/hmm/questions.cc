#include "hmm/questions.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace antiphon::hmm {
namespace {

// A set of phones with the statistics of each pdf class.
struct Cluster {
  std::vector<int32_t> phones;
  std::map<int32_t, GaussianStats> classes;

  double LogLikelihood() const {
    double total = 0;
    for (const auto& [pdf_class, stats] : classes) total += stats.LogLikelihood();
    return total;
  }
};

Cluster Merged(const Cluster& a, const Cluster& b) {
  Cluster both = a;
  both.phones.insert(both.phones.end(), b.phones.begin(), b.phones.end());
  std::sort(both.phones.begin(), both.phones.end());
  for (const auto& [pdf_class, stats] : b.classes) both.classes[pdf_class].Add(stats);
  return both;
}

// Merges the two clusters that lose least until one is left; every cluster that ever stood is a question.
void ClusterPhones(std::vector<Cluster> clusters, std::set<std::vector<int32_t>>& questions) {
  std::vector<double> own;
  for (const Cluster& c : clusters) own.push_back(c.LogLikelihood());
  std::vector<std::vector<double>> loss(clusters.size(), std::vector<double>(clusters.size(), 0.0));
  auto price = [&](size_t i, size_t j) { return own[i] + own[j] - Merged(clusters[i], clusters[j]).LogLikelihood(); };
  for (size_t i = 0; i < clusters.size(); ++i) {
    questions.insert(clusters[i].phones);
    for (size_t j = 0; j < i; ++j) loss[i][j] = price(i, j);
  }
  std::vector<bool> alive(clusters.size(), true);
  for (size_t left = clusters.size(); left > 1; --left) {
    size_t best_i = 0;
    size_t best_j = 0;
    for (size_t i = 0; i < clusters.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (!alive[i] || !alive[j]) continue;
        if (best_i == best_j || loss[i][j] < loss[best_i][best_j]) {
          best_i = i;
          best_j = j;
        }
      }
    }
    clusters[best_j] = Merged(clusters[best_i], clusters[best_j]);
    alive[best_i] = false;
    own[best_j] = clusters[best_j].LogLikelihood();
    questions.insert(clusters[best_j].phones);
    for (size_t k = 0; k < clusters.size(); ++k) {
      if (k == best_j || !alive[k]) continue;
      loss[std::max(k, best_j)][std::min(k, best_j)] = price(std::max(k, best_j), std::min(k, best_j));
    }
  }
}

}  // namespace

std::vector<std::vector<int32_t>> FindQuestions(const TreeStats& stats, const PhoneSet& phones) {
  std::vector<Cluster> clusters;
  std::map<int32_t, size_t> cluster_of;
  std::vector<int32_t> silence;
  for (const std::vector<int32_t>& group : phones.BaseGroups()) {
    if (phones.IsSilence(group.front())) silence.insert(silence.end(), group.begin(), group.end());
    for (const int32_t phone : group) cluster_of[phone] = clusters.size();
    clusters.push_back({group, {}});
  }
  for (const auto& [context, gaussian] : stats) {
    clusters[cluster_of.at(context.window[1])].classes[context.pdf_class].Add(gaussian);
  }

  std::set<std::vector<int32_t>> questions;
  ClusterPhones(clusters, questions);
  if (!silence.empty()) {
    std::sort(silence.begin(), silence.end());
    questions.insert(silence);
    silence.insert(silence.begin(), 0);
    questions.insert(silence);  // silence or the end of the utterance
  }
  if (phones.position_dependent()) {
    std::map<std::string, std::vector<int32_t>> by_position;
    for (int32_t phone = 1; phone <= phones.num_phones(); ++phone) {
      by_position[phones.PositionSuffix(phone)].push_back(phone);
    }
    for (const auto& [suffix, set] : by_position) questions.insert(set);
  }
  return {questions.begin(), questions.end()};
}

}  // namespace antiphon::hmm
