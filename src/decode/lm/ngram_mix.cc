#include "decode/lm/ngram_mix.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "decode/lm/ngram_backoff.h"

namespace antiphon::decode {
namespace {

using Sentences = std::vector<std::vector<std::string>>;

void RequireSentenceEnds(std::span<const NgramModel> models) {
  for (size_t m = 0; m < models.size(); ++m) {
    if (models[m].WordId("</s>") < 0) Throw<InputError>("language model {} has no </s>", m + 1);
  }
}

// The models' probabilities of each word and sentence end of a text that one of them knows.
struct Events {
  size_t num_models = 0;
  std::vector<double> probabilities;  // by event and model
  PerplexityResult counts;            // without log_prob

  size_t size() const { return probabilities.size() / num_models; }
  std::span<const double> Of(size_t event) const {
    return std::span(probabilities).subspan(event * num_models, num_models);
  }
};

Events FindEvents(std::span<const NgramModel> models, const Sentences& sentences) {
  RequireSentenceEnds(models);
  Events events{.num_models = models.size(), .probabilities = {}, .counts = {}};
  std::vector<int32_t> states(models.size());
  std::vector<double> of_word(models.size());
  const auto step = [&](const std::string& word) {
    bool known = false;
    for (size_t m = 0; m < models.size(); ++m) {
      const int32_t id = models[m].WordId(word);
      known = known || id >= 0;
      const auto next = id >= 0 ? models[m].Step(states[m], id) : NgramModel::Transition{0.0F, NgramModel::kRoot};
      of_word[m] = id >= 0 ? std::exp(static_cast<double>(next.log_prob)) : 0.0;
      states[m] = next.next_state;
    }
    if (known) events.probabilities.insert(events.probabilities.end(), of_word.begin(), of_word.end());
    return known;
  };
  for (const auto& sentence : sentences) {
    ++events.counts.sentences;
    for (size_t m = 0; m < models.size(); ++m) states[m] = models[m].StartState();
    for (const std::string& word : sentence) {
      ++events.counts.words;
      if (!step(word)) ++events.counts.oov_words;
    }
    step("</s>");
  }
  return events;
}

double Mixed(std::span<const double> probabilities, std::span<const double> weights) {
  return std::inner_product(weights.begin(), weights.end(), probabilities.begin(), 0.0);
}

class Mixer {
 public:
  Mixer(std::span<const NgramModel> models, std::span<const double> weights) : models_(models), weights_(weights) {
    int order = 1;
    for (const NgramModel& model : models) order = std::max(order, model.order());
    mixture_ = NgramModel(order);
    for (const NgramModel& model : models) {
      for (const std::string& word : model.words()) mixture_.AddWord(word);
    }
    for (const NgramModel& model : models) {
      auto& ids = ids_.emplace_back();
      for (const std::string& word : mixture_.words()) ids.push_back(model.WordId(word));
      nodes_.emplace_back(model.nodes().size(), NgramModel::kRoot);
    }
  }

  NgramModel Mix() {
    // Shorter n-grams first; those of later models only where the ones before lack them.
    for (int depth = 1; depth <= mixture_.order(); ++depth) {
      for (size_t m = 0; m < models_.size(); ++m) {
        for (size_t i = 1; i < models_[m].nodes().size(); ++i) {
          if (models_[m].nodes()[i].depth == depth) Place(m, i);
        }
      }
    }
    mixture_.Finish();
    const std::vector<bool> all(mixture_.nodes().size(), true);
    return WithNewBackoffs(mixture_, all, all);
  }

 private:
  // Finds the n-gram's node in the mixture, or adds it.
  void Place(size_t m, size_t node) {
    const NgramModel::Node& ngram = models_[m].nodes()[node];
    const int32_t history = nodes_[m][static_cast<size_t>(ngram.parent)];
    const int32_t word = mixture_.WordId(models_[m].words()[static_cast<size_t>(ngram.word)]);
    const auto next = static_cast<int32_t>(mixture_.nodes().size());
    const auto [it, is_new] =
        children_.emplace(static_cast<uint64_t>(history) << 32 | static_cast<uint32_t>(word), next);
    nodes_[m][node] = it->second;
    if (!is_new) return;
    std::vector<int32_t> words = {word};
    for (int32_t n = history; n != NgramModel::kRoot; n = mixture_.nodes()[n].parent) {
      words.push_back(mixture_.nodes()[n].word);
    }
    std::reverse(words.begin(), words.end());
    mixture_.AddNgram(words, LogProbability(words), 0.0F);
  }

  float LogProbability(const std::vector<int32_t>& words) const {
    double p = 0.0;
    std::vector<int32_t> local;
    for (size_t m = 0; m < models_.size(); ++m) {
      local.clear();
      for (const int32_t word : words) local.push_back(ids_[m][static_cast<size_t>(word)]);
      if (local.back() < 0) continue;
      const float log_prob = models_[m].LogProb(std::span(local).first(local.size() - 1), local.back());
      if (log_prob > NgramModel::kImpossible) p += weights_[m] * std::exp(static_cast<double>(log_prob));
    }
    return p > 0 ? std::max(static_cast<float>(std::log(p)), NgramModel::kImpossible) : NgramModel::kImpossible;
  }

  std::span<const NgramModel> models_;
  std::span<const double> weights_;
  NgramModel mixture_{1};
  std::vector<std::vector<int32_t>> ids_;           // by model and word of the mixture; −1: the model lacks it
  std::vector<std::vector<int32_t>> nodes_;         // by model and its node: the mixture's
  std::unordered_map<uint64_t, int32_t> children_;  // (history, word) → node of the mixture
};

}  // namespace

NgramModel MixNgrams(std::span<const NgramModel> models, std::span<const double> weights) {
  CHECK_EQ(models.size(), weights.size());
  RequireSentenceEnds(models);
  return Mixer(models, weights).Mix();
}

PerplexityResult MeasureMixture(std::span<const NgramModel> models, std::span<const double> weights,
                                const Sentences& sentences) {
  const Events events = FindEvents(models, sentences);
  PerplexityResult result = events.counts;
  for (size_t e = 0; e < events.size(); ++e) result.log_prob += std::log(Mixed(events.Of(e), weights));
  return result;
}

MixtureWeights EstimateMixtureWeights(std::span<const NgramModel> models, const Sentences& sentences) {
  constexpr int kMaxIterations = 1000;
  constexpr double kEnough = 1e-6;
  const Events events = FindEvents(models, sentences);
  if (events.size() == 0) throw InputError("there are no sentences to choose the weights by");
  const auto count = static_cast<double>(models.size());
  MixtureWeights result{std::vector<double>(models.size(), 1.0 / count), 0};
  for (double change = 1.0; change > kEnough && result.iterations < kMaxIterations; ++result.iterations) {
    std::vector<double> shares(models.size(), 0.0);
    for (size_t e = 0; e < events.size(); ++e) {
      const double total = Mixed(events.Of(e), result.weights);
      if (total <= 0) continue;
      for (size_t m = 0; m < models.size(); ++m) shares[m] += result.weights[m] * events.Of(e)[m] / total;
    }
    const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
    change = 0.0;
    for (size_t m = 0; m < models.size(); ++m) {
      shares[m] /= sum;
      change = std::max(change, std::abs(shares[m] - result.weights[m]));
    }
    result.weights = shares;
  }
  return result;
}

}  // namespace antiphon::decode
