// Lists of whole phrases: the contexts against plain recursion over all ways to cut words into phrases, the search
// against enumeration.
#include "decode/search/phrase_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "decode/search/decoder.h"
#include "decode/search/matrix_scores.h"
#include "decode/search/word_bias.h"

namespace antiphon::decode {
namespace {

using PhraseWords = std::vector<int32_t>;
constexpr int kNever = 1000;

// The fewest words outside of phrases; kNever: there is no way. `whole`: the last phrase must be.
int FewestOthers(const std::vector<PhraseWords>& phrases, const PhraseWords& words, size_t from, bool others,
                 bool whole) {
  if (from == words.size()) return 0;
  int fewest = others ? 1 + FewestOthers(phrases, words, from + 1, others, whole) : kNever;
  for (const PhraseWords& phrase : phrases) {
    const size_t length = std::min(phrase.size(), words.size() - from);
    if (!std::equal(phrase.begin(), phrase.begin() + static_cast<std::ptrdiff_t>(length),
                    words.begin() + static_cast<std::ptrdiff_t>(from))) {
      continue;
    }
    if (length < phrase.size()) {
      if (!whole) fewest = 0;
    } else {
      fewest = std::min(fewest, FewestOthers(phrases, words, from + length, others, whole));
    }
  }
  return std::min(fewest, kNever);
}

double WalkCost(const PhraseList& list, const PhraseWords& words, bool ended) {
  int32_t context = 0;
  double cost = 0;
  for (const int32_t word : words) {
    const PhraseList::Step step = list.Next(context, word);
    cost += static_cast<double>(step.cost);
    context = step.context;
  }
  return ended ? cost + static_cast<double>(list.FinalCost(context)) : cost;
}

PhraseWords RandomWords(Rng& rng, uint64_t most, uint64_t vocabulary) {
  PhraseWords words;
  for (uint64_t n = rng.Below(most + 1); n > 0; --n) words.push_back(static_cast<int32_t>(1 + rng.Below(vocabulary)));
  return words;
}

std::vector<PhraseWords> RandomPhrases(Rng& rng) {
  std::vector<PhraseWords> phrases;
  while (phrases.size() < 5) {
    if (PhraseWords phrase = RandomWords(rng, 5, 3); !phrase.empty()) phrases.push_back(std::move(phrase));
  }
  return phrases;
}

TEST(PhraseList, CostsWhatTheBestWayOfCuttingTheWordsCosts) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const std::vector<PhraseWords> phrases = RandomPhrases(rng);
    const PhraseList strict(phrases, false), open(phrases, true);
    for (int round = 0; round < 50; ++round) {
      const PhraseWords words = RandomWords(rng, 9, 4);
      const int others = FewestOthers(phrases, words, 0, true, true);
      EXPECT_NEAR(WalkCost(open, words, true), others * static_cast<double>(PhraseList::kOtherWordCost), 1e-4);
      EXPECT_EQ(std::isfinite(WalkCost(strict, words, true)), others == 0);
      EXPECT_EQ(std::isfinite(WalkCost(strict, words, false)), FewestOthers(phrases, words, 0, false, false) == 0);
    }
  }
}

TEST(PhraseList, FindsTheWordsThatArePhrases) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    const std::vector<PhraseWords> phrases = RandomPhrases(rng);
    const PhraseList list(phrases, true);
    for (int round = 0; round < 50; ++round) {
      const PhraseWords words = RandomWords(rng, 9, 4);
      for (const bool ended : {true, false}) {
        const std::vector<bool> within = list.InPhrases(words, ended);
        ASSERT_EQ(within.size(), words.size());
        EXPECT_EQ(std::count(within.begin(), within.end(), false), FewestOthers(phrases, words, 0, true, ended));
        // What is within, between two that are not, is phrases and nothing else.
        PhraseWords stretch;
        for (size_t i = 0; i <= words.size(); ++i) {
          if (i < words.size() && within[i]) {
            stretch.push_back(words[i]);
            continue;
          }
          const bool whole = ended || i < words.size();
          EXPECT_EQ(FewestOthers(phrases, stretch, 0, false, whole), 0);
          stretch.clear();
        }
      }
    }
  }
}

TEST(PhraseList, RefusesPhrasesThatOverlapInTooManyWays) {
  // All words alike but one: each place in each phrase may be one where another began.
  std::vector<PhraseWords> phrases;
  for (int32_t i = 0; i < 200; ++i) {
    PhraseWords phrase(200, 1);
    phrase[static_cast<size_t>(i)] = 2 + i;
    phrases.push_back(std::move(phrase));
  }
  EXPECT_THROW(PhraseList(phrases, true), InputError);
}

TEST(PhraseList, TakesThousandsOfPhrases) {
  Rng rng(1);
  std::vector<PhraseWords> phrases;
  while (phrases.size() < 3000) {
    if (PhraseWords phrase = RandomWords(rng, 6, 1000); phrase.size() > 1) phrases.push_back(std::move(phrase));
  }
  for (const bool others : {false, true}) {
    const PhraseList list(phrases, others);
    for (size_t i = 0; i < phrases.size(); i += 100) EXPECT_EQ(WalkCost(list, phrases[i], true), 0) << i;
  }
}

Graph LoopOf(const std::vector<std::string>& words) {
  std::vector<GraphArc> arcs;
  std::vector<int32_t> pdfs = {0};
  std::vector<std::string> names = {"<eps>"};
  for (const std::string& word : words) {
    const auto id = static_cast<int32_t>(names.size());
    arcs.push_back({id, id, 2.0F, 0});
    pdfs.push_back(id - 1);
    names.push_back(word);
  }
  std::vector<GraphState> states = {{0, 0, static_cast<uint32_t>(arcs.size()), 0.5F}};
  return Graph(std::move(states), std::move(arcs), 0, std::move(names), std::move(pdfs));
}

// The best of all word sequences, one word per frame, that the list allows.
PhraseWords BestAllowed(const Matrix& scores, const WordBias& bias) {
  PhraseWords best;
  double best_cost = HUGE_VAL;
  const auto frames = static_cast<size_t>(scores.rows());
  auto all = static_cast<int64_t>(std::llround(std::pow(scores.cols(), frames)));
  while (--all >= 0) {
    PhraseWords words(frames);
    int64_t rest = all;
    double cost = 0;
    int32_t context = 0;
    for (size_t t = 0; t < frames; ++t, rest /= scores.cols()) {
      words[t] = static_cast<int32_t>(1 + rest % scores.cols());
      cost -= static_cast<double>(scores(static_cast<int64_t>(t), words[t] - 1));
      const WordBias::Step step = bias.Next(context, words[t]);
      cost += static_cast<double>(step.cost);
      context = step.context;
    }
    cost += static_cast<double>(bias.FinalCost(context));
    if (cost < best_cost) {
      best_cost = cost;
      best = words;
    }
  }
  return best;
}

DecoderOptions WithoutBeam() {
  DecoderOptions options;
  options.beam = options.lattice_beam = 1e6;
  options.acoustic_scale = 1;
  options.min_active = 0;
  return options;
}

WordBiasOptions Allowing(std::vector<std::string> phrases) {
  WordBiasOptions options;
  options.words = std::move(phrases);
  return options;
}

TEST(WordBias, TheSearchSaysWholePhrasesAlone) {
  const Graph graph = LoopOf({"a", "b", "c", "d"});
  const WordBiasOptions strict = Allowing({"a b c", "d", "b d"});
  const WordBiasOptions open = Allowing({"a b c", "b d", "[unk]"});
  WordBiasOptions preferred = strict;
  preferred.phrases = {{"d b", 1.5}};
  for (const WordBiasOptions& options : {strict, open, preferred}) {
    const WordBias bias(graph, options);
    ASSERT_NE(bias.phrases(), nullptr);
    for (uint64_t seed = 0; seed < 30; ++seed) {
      Rng rng(seed);
      Matrix scores(6, 4);
      for (int64_t i = 0; i < scores.size(); ++i) scores.data()[i] = static_cast<float>(3 * rng.Normal() - 3);
      MatrixScores source(scores);
      Decoder decoder(graph, WithoutBeam(), &bias);
      decoder.Advance(source, 6);
      decoder.Finish();
      ASSERT_TRUE(decoder.ReachedFinal());
      EXPECT_EQ(decoder.BestPath().words, BestAllowed(scores, bias)) << "seed " << seed;
      EXPECT_EQ(NBest(decoder.RawLattice(), {1, 0}, 3).front().words, decoder.BestPath().words);
    }
  }
}

TEST(WordBias, APhraseThatIsCutOffIsNoEnd) {
  const Graph graph = LoopOf({"a", "b", "c"});
  const WordBias bias(graph, Allowing({"a b c"}));
  const Matrix scores(2, 3);
  MatrixScores source(scores);
  Decoder decoder(graph, WithoutBeam(), &bias);
  decoder.Advance(source, 2);
  EXPECT_FALSE(decoder.ReachedFinal());
  decoder.Finish();
  EXPECT_EQ(decoder.BestPath().words, (PhraseWords{1, 2}));
  EXPECT_THAT(bias.phrases()->InPhrases(decoder.BestPath().words, true), ::testing::ElementsAre(false, false));
}

TEST(WordBias, PhrasesOfWordsThatAreNotThereAreLeftOut) {
  const Graph graph = LoopOf({"a", "b"});
  const WordBias bias(graph, Allowing({"a x", "b a"}));
  EXPECT_THAT(bias.remarks(), ::testing::ElementsAre(::testing::HasSubstr("'a x' cannot be recognised: 'x' is not")));
  EXPECT_TRUE(std::isinf(bias.Next(0, 1).cost));
  EXPECT_FALSE(std::isinf(bias.Next(0, 2).cost));
  EXPECT_THROW(WordBias(graph, Allowing({"a x", ""})), InputError);
  EXPECT_EQ(WordBias(graph, Allowing({"a", "b"})).phrases(), nullptr) << "single words need no contexts";
}

}  // namespace
}  // namespace antiphon::decode
