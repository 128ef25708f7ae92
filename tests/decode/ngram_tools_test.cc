// Pruning and interpolation of n-gram models, against sums over all words and histories.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "decode/lm/ngram_backoff.h"
#include "decode/lm/ngram_estimate.h"
#include "decode/lm/ngram_mix.h"
#include "decode/lm/ngram_prune.h"

namespace antiphon::decode {
namespace {

using ::testing::HasSubstr;
using Sentences = std::vector<std::vector<std::string>>;

Sentences RandomSentences(uint64_t seed, int count, int vocabulary, int first_word = 0) {
  Rng rng(seed);
  Sentences text(count);
  for (auto& sentence : text) {
    uint64_t previous = 0;
    for (uint64_t n = rng.Below(7); n > 0; --n) {
      // Words depend on those before, so that long n-grams say something.
      previous = (3 * previous + static_cast<uint64_t>(vocabulary * std::pow(rng.Uniform(), 3))) % vocabulary;
      sentence.push_back("w" + std::to_string(first_word + static_cast<int>(previous)));
    }
  }
  return text;
}

double Probability(const NgramModel& lm, int32_t node, int32_t word) {
  return std::exp(static_cast<double>(lm.Step(node, word).log_prob));
}

void ExpectSumsOfOne(const NgramModel& lm, const std::string& what) {
  for (size_t node = 0; node < lm.nodes().size(); ++node) {
    if (lm.nodes()[node].depth >= lm.order()) continue;
    double sum = 0.0;
    for (size_t word = 0; word < lm.words().size(); ++word) {
      sum += Probability(lm, static_cast<int32_t>(node), static_cast<int32_t>(word));
    }
    ASSERT_NEAR(sum, 1.0, 2e-5) << what << ", history " << node;
  }
}

std::vector<std::string> NgramsOf(const NgramModel& lm) {
  std::vector<std::string> ngrams;
  for (size_t i = 1; i < lm.nodes().size(); ++i) {
    std::string text;
    for (auto n = static_cast<int32_t>(i); n > 0; n = lm.nodes()[n].parent) {
      text = lm.words()[lm.nodes()[n].word] + " " + text;
    }
    ngrams.push_back(text);
  }
  std::sort(ngrams.begin(), ngrams.end());
  return ngrams;
}

TEST(PruneNgrams, ChangesNothingAtZero) {
  for (const char* method : {"witten-bell", "kneser-ney"}) {
    const NgramModel lm = EstimateNgram(RandomSentences(3, 200, 9), {}, {3, method, 1});
    EXPECT_EQ(PruneNgrams(lm, 0.0).ToArpa(), lm.ToArpa());
  }
}

TEST(PruneNgrams, RemovesMoreAtLargerThresholdsAndStaysProper) {
  for (const char* method : {"witten-bell", "kneser-ney"}) {
    const Sentences text = RandomSentences(4, 300, 12);
    const NgramModel lm = EstimateNgram(text, {}, {4, method, 1});
    std::vector<std::string> before = NgramsOf(lm);
    double perplexity = MeasurePerplexity(lm, text).Perplexity();
    for (const double threshold : {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0}) {
      const NgramModel pruned = PruneNgrams(lm, threshold);
      ExpectSumsOfOne(pruned, method);
      const std::vector<std::string> after = NgramsOf(pruned);
      EXPECT_TRUE(std::includes(before.begin(), before.end(), after.begin(), after.end())) << threshold;
      if (threshold > 1e-6) {
        EXPECT_LT(after.size(), before.size()) << threshold;
      }
      const double now = MeasurePerplexity(pruned, text).Perplexity();
      EXPECT_GT(now, perplexity * 0.999) << "of the text that it was learnt from";
      before = after;
      perplexity = now;
    }
    EXPECT_EQ(before.size(), lm.words().size()) << "only 1-grams are left";
    EXPECT_EQ(PruneNgrams(lm, 1.0).order(), 1);
  }
}

// The model without one n-gram, made by hand.
NgramModel WithoutOne(const NgramModel& lm, int32_t removed) {
  NgramModel rest(lm.order());
  for (const std::string& word : lm.words()) rest.AddWord(word);
  for (int depth = 1; depth <= lm.order(); ++depth) {
    for (size_t i = 1; i < lm.nodes().size(); ++i) {
      if (lm.nodes()[i].depth != depth || static_cast<int32_t>(i) == removed) continue;
      std::vector<int32_t> words;
      for (auto n = static_cast<int32_t>(i); n > 0; n = lm.nodes()[n].parent) words.push_back(lm.nodes()[n].word);
      std::reverse(words.begin(), words.end());
      float log_backoff = lm.nodes()[i].log_backoff;
      if (static_cast<int32_t>(i) == lm.nodes()[removed].parent) {
        // (1 − Σ p(w|h)) / (1 − Σ p(w|h′)) over the words that are left.
        double left = 1.0, shorter = 1.0;
        for (size_t c = 1; c < lm.nodes().size(); ++c) {
          const auto& child = lm.nodes()[c];
          if (child.parent != static_cast<int32_t>(i) || static_cast<int32_t>(c) == removed) continue;
          left -= std::exp(static_cast<double>(child.log_prob));
          shorter -= Probability(lm, lm.nodes()[i].backoff_node, child.word);
        }
        log_backoff = static_cast<float>(std::log(left / shorter));
      }
      rest.AddNgram(words, lm.nodes()[i].log_prob, log_backoff);
    }
  }
  rest.Finish();
  return rest;
}

// D(old || new) = Σ_h p(h) Σ_w p(w|h) log p(w|h) / p′(w|h): only the history of the removed n-gram differs.
TEST(PruneNgrams, CostsAreTheRelativeEntropyByBruteForce) {
  const NgramModel lm = EstimateNgram(RandomSentences(5, 60, 4), {}, {3, "witten-bell", 1});
  const std::vector<double> costs = RemovalCosts(lm);
  int tried = 0;
  for (size_t i = 1; i < lm.nodes().size(); ++i) {
    const auto& node = lm.nodes()[i];
    if (node.depth == 1) {
      EXPECT_EQ(costs[i], 0.0);
      continue;
    }
    if (node.has_children) continue;
    const NgramModel without = WithoutOne(lm, static_cast<int32_t>(i));
    std::vector<int32_t> history;
    for (int32_t n = node.parent; n > 0; n = lm.nodes()[n].parent) history.push_back(lm.nodes()[n].word);
    std::reverse(history.begin(), history.end());
    // A sentence begins as often as one ends.
    double p_history = 1.0;
    for (size_t k = 0; k < history.size(); ++k) {
      const bool begins = k == 0 && history[k] == lm.WordId("<s>");
      p_history *= std::exp(
          static_cast<double>(lm.LogProb(std::span(history).first(k), begins ? lm.WordId("</s>") : history[k])));
    }
    double divergence = 0.0;
    for (size_t word = 0; word < lm.words().size(); ++word) {
      const double p = std::exp(static_cast<double>(lm.LogProb(history, static_cast<int32_t>(word))));
      const double q = std::exp(static_cast<double>(without.LogProb(history, static_cast<int32_t>(word))));
      if (p > 1e-60) divergence += p * std::log(p / q);
    }
    EXPECT_NEAR(costs[i], p_history * divergence, 5e-7 + 1e-3 * costs[i]) << "node " << i;
    ++tried;
  }
  EXPECT_GT(tried, 30);
}

// One bigram that says nothing new (p(b|a) is what backing off gives) and one that does.
TEST(PruneNgrams, DropsWhatBackingOffSaysAsWell) {
  const double p_a = 0.5, p_b = 0.25, p_end = 0.25;
  const auto log = [](double p) { return static_cast<float>(std::log(p)); };
  NgramModel lm(2);
  const int32_t a = lm.AddWord("a"), b = lm.AddWord("b"), end = lm.AddWord("</s>");
  lm.AddNgram(std::vector{a}, log(p_a), 0.0F);
  lm.AddNgram(std::vector{b}, log(p_b), log((1 - 0.9) / (1 - p_a)));
  lm.AddNgram(std::vector{end}, log(p_end), 0.0F);
  lm.AddNgram(std::vector{a, b}, log(p_b), 0.0F);
  lm.AddNgram(std::vector{b, a}, log(0.9), 0.0F);
  lm.Finish();
  const NgramModel pruned = PruneNgrams(lm, 1e-3);
  EXPECT_EQ(pruned.NumNgrams(2), 1);
  EXPECT_NEAR(pruned.LogProb(std::vector{a}, b), log(p_b), 1e-6);
  EXPECT_NEAR(pruned.LogProb(std::vector{b}, a), log(0.9), 1e-6);
  // By hand: p(b) · [0.9 log 0.9/0.5 + 0.1 log 0.1/0.5].
  const double cost = p_b * (0.9 * std::log(0.9 / 0.5) + 0.1 * std::log(0.1 / 0.5));
  EXPECT_NEAR(RemovalCosts(lm).back(), cost, 1e-6);
  EXPECT_EQ(PruneNgrams(lm, std::expm1(cost) * 0.999).NumNgrams(2), 1);
  EXPECT_EQ(PruneNgrams(lm, std::expm1(cost) * 1.001).order(), 1);
}

// A bigram may go while a trigram that ends in it stays; the trigram's history must then sum to 1 anew.
TEST(PruneNgrams, MendsHistoriesThatBackOffToAPrunedOne) {
  const NgramModel lm = NgramModel::ParseArpa(
      "\\data\\\nngram 1=4\nngram 2=3\nngram 3=1\n\\1-grams:\n-0.30103 a 0\n-0.60206 b 0\n-0.60206 </s>\n-99 <s> "
      "-0.30103\n\\2-grams:\n-0.552842 a b -0.1\n-0.1249387 <s> a -0.4259687\n-0.60206 b </s>\n"
      "\\3-grams:\n-0.0969100 <s> a b\n\\end\\\n",
      "lm.arpa");
  const std::vector<bool> all(lm.nodes().size(), true);
  const NgramModel proper = WithNewBackoffs(lm, all, all);
  const NgramModel pruned = PruneNgrams(proper, 5e-3);
  EXPECT_LT(pruned.NumNgrams(2), 3);
  EXPECT_EQ(pruned.NumNgrams(3), 1);
  ExpectSumsOfOne(pruned, "pruned");
}

TEST(PruneNgrams, RefusesModelsThatDoNotSumToOne) {
  const auto error = [](const char* arpa) -> std::string {
    try {
      PruneNgrams(NgramModel::ParseArpa(arpa, "lm.arpa"), 1e-8);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error("\\data\\\nngram 1=2\n\\1-grams:\n-0.5 a\n-0.75 </s>\n\\end\\\n"),
              HasSubstr("1-grams sum to 0.49"));
  EXPECT_THAT(error("\\data\\\nngram 1=2\nngram 2=2\n\\1-grams:\n-0.30103 a 0\n-0.30103 </s>\n\\2-grams:\n-0.1 a a\n"
                    "-0.2 a </s>\n\\end\\\n"),
              HasSubstr("behind 'a' sum to 1.4"));
}

// As KenLM writes models: with a probability of 1 for the begin of a sentence, which is never read.
TEST(PruneNgrams, TakesAnyProbabilityOfTheBeginOfASentence) {
  for (const char* begin : {"0", "-99"}) {
    const std::string arpa = fmt::format(
        "\\data\\\nngram 1=3\nngram 2=1\n\\1-grams:\n{} <s> 0\n-0.30103 a\n-0.30103 </s>\n\\2-grams:\n-0.2 <s> "
        "a\n\\end\\\n",
        begin);
    EXPECT_NO_THROW(PruneNgrams(NgramModel::ParseArpa(arpa, "lm.arpa"), 1e-8)) << begin;
  }
}

double MixedProbability(const std::vector<NgramModel>& models, const std::vector<double>& weights,
                        const std::vector<std::string>& history, const std::string& word) {
  double sum = 0.0;
  for (size_t m = 0; m < models.size(); ++m) {
    std::vector<int32_t> ids;
    for (const auto& w : history) ids.push_back(models[m].WordId(w));
    const int32_t id = models[m].WordId(word);
    if (id >= 0) sum += weights[m] * std::exp(static_cast<double>(models[m].LogProb(ids, id)));
  }
  return sum;
}

std::vector<NgramModel> Models() {
  // The second has words of its own, and lacks some of the first.
  std::vector<NgramModel> models;
  models.push_back(EstimateNgram(RandomSentences(6, 150, 8), {}, {3, "witten-bell", 1}));
  models.push_back(EstimateNgram(RandomSentences(7, 150, 8, 4), {}, {2, "kneser-ney", 1}));
  return models;
}

TEST(MixNgrams, HasTheWeightedSumForEveryNgramOfAnyModel) {
  const std::vector<NgramModel> models = Models();
  const std::vector<double> weights = {0.7, 0.3};
  const NgramModel mixture = MixNgrams(models, weights);
  EXPECT_EQ(mixture.order(), 3);
  ExpectSumsOfOne(mixture, "mixture");
  std::set<std::string> words, ngrams;
  for (const auto& model : models) {
    words.insert(model.words().begin(), model.words().end());
    for (const auto& ngram : NgramsOf(model)) ngrams.insert(ngram);
  }
  EXPECT_EQ(mixture.words().size(), words.size());
  EXPECT_GT(words.size(), models[0].words().size());
  const auto mixed = NgramsOf(mixture);
  EXPECT_EQ(std::set<std::string>(mixed.begin(), mixed.end()), ngrams);
  for (size_t i = 1; i < mixture.nodes().size(); ++i) {
    std::vector<std::string> history;
    for (int32_t n = mixture.nodes()[i].parent; n > 0; n = mixture.nodes()[n].parent) {
      history.insert(history.begin(), mixture.words()[mixture.nodes()[n].word]);
    }
    const std::string& word = mixture.words()[mixture.nodes()[i].word];
    if (word == "<s>") continue;
    EXPECT_NEAR(std::exp(static_cast<double>(mixture.nodes()[i].log_prob)),
                MixedProbability(models, weights, history, word), 1e-6);
  }
}

TEST(MixNgrams, OfOneModelTwiceIsThatModel) {
  const NgramModel lm = EstimateNgram(RandomSentences(8, 100, 6), {}, {3, "witten-bell", 1});
  const std::vector<NgramModel> models = {lm, lm};
  const NgramModel mixture = MixNgrams(models, std::vector{0.25, 0.75});
  ASSERT_EQ(mixture.nodes().size(), lm.nodes().size());
  const Sentences text = RandomSentences(9, 100, 6);
  EXPECT_NEAR(MeasurePerplexity(mixture, text).Perplexity(), MeasurePerplexity(lm, text).Perplexity(), 1e-3);
}

TEST(MixNgrams, PerplexityIsThatOfTheWeightedSums) {
  const std::vector<NgramModel> models = Models();
  const std::vector<double> weights = {0.4, 0.6};
  Sentences text = RandomSentences(10, 50, 12);
  text.push_back({"w1", "unheard", "w2"});
  double log_prob = 0.0;
  int64_t events = 0;
  for (auto sentence : text) {
    std::vector<std::string> history = {"<s>"};
    sentence.push_back("</s>");
    for (const std::string& word : sentence) {
      if (word != "unheard") {
        log_prob += std::log(MixedProbability(models, weights, history, word));
        ++events;
      }
      history.push_back(word);
    }
  }
  const PerplexityResult result = MeasureMixture(models, weights, text);
  EXPECT_EQ(result.oov_words, 1);
  EXPECT_EQ(result.sentences, 51);
  EXPECT_NEAR(result.Perplexity(), std::exp(-log_prob / static_cast<double>(events)), 1e-4);
}

// Two models of single words: the likelihood of a text has its maximum in closed form.
TEST(MixtureWeights, FindTheMaximumOfTheLikelihood) {
  const auto unigram = [](double a) {
    NgramModel lm(1);
    const int32_t word_a = lm.AddWord("a"), word_b = lm.AddWord("b"), end = lm.AddWord("</s>");
    lm.AddNgram(std::vector{word_a}, static_cast<float>(std::log(a)), 0.0F);
    lm.AddNgram(std::vector{word_b}, static_cast<float>(std::log(0.8 - a)), 0.0F);
    lm.AddNgram(std::vector{end}, static_cast<float>(std::log(0.2)), 0.0F);
    lm.Finish();
    return lm;
  };
  const std::vector<NgramModel> models = {unigram(0.7), unigram(0.2)};
  // a : b = 5 : 3, so the mixture's p(a) is to be 0.5: 0.7 w + 0.2 (1 − w) = 0.5.
  const MixtureWeights found = EstimateMixtureWeights(models, {{"a", "b", "a", "a", "b", "b", "a", "a"}});
  EXPECT_NEAR(found.weights[0], 0.6, 1e-3);
  EXPECT_NEAR(found.weights[0] + found.weights[1], 1.0, 1e-12);
  EXPECT_THROW(EstimateMixtureWeights(models, {}), InputError);
}

TEST(MixtureWeights, AreBetterThanTheirNeighbours) {
  const std::vector<NgramModel> models = Models();
  const Sentences text = RandomSentences(11, 200, 10, 1);
  const std::vector<double> best = EstimateMixtureWeights(models, text).weights;
  const double most = MeasureMixture(models, best, text).log_prob;
  for (const double step : {-0.01, 0.01}) {
    EXPECT_LT(MeasureMixture(models, std::vector{best[0] + step, best[1] - step}, text).log_prob, most);
  }
  for (size_t m = 0; m < 2; ++m) EXPECT_GT(best[m], 0.05);
}

}  // namespace
}  // namespace antiphon::decode
