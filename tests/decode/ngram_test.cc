#include "decode/lm/ngram.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "decode/lm/ngram_estimate.h"
#include "decode/lm/ngram_fst.h"
#include "hmm/graph/openfst.h"
#include "oracle.h"
#include "temporary_folder.h"

namespace antiphon::decode {
namespace {

using ::testing::HasSubstr;
using Sentences = std::vector<std::vector<std::string>>;

// Entries out of order, a missing back-off weight (b), a trigram whose prefix "b a" is not listed.
constexpr const char* kArpa = R"(comment before

\data\
ngram 1=4
ngram  2 = 3
ngram 3=2

\1-grams:
-0.5	b
-1.0	a	-0.25
-99	<s>	-0.5
-0.75	</s>

\2-grams:
-0.125	a b
-0.5	<s> a	-0.0625
-1.5	b </s>

\3-grams:
-0.375	<s> a b
-0.2	b a b

\end\
)";

constexpr double kLn10 = 2.302585093;

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

std::string ErrorOf(const std::string& arpa) {
  try {
    NgramModel::ParseArpa(arpa, "lm.arpa");
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

double Log10Of(const NgramModel& lm, const std::vector<std::string>& history, const std::string& word) {
  std::vector<int32_t> ids;
  for (const auto& w : history) ids.push_back(lm.WordId(w));
  return lm.LogProb(ids, lm.WordId(word)) / kLn10;
}

Sentences RandomText(uint64_t seed, int count, int vocabulary) {
  Rng rng(seed);
  Sentences text(count);
  for (auto& sentence : text) {
    for (uint64_t n = rng.Below(8); n > 0; --n) {
      // Skewed, so that counts of counts are all there.
      const auto w = static_cast<int>(vocabulary * std::pow(rng.Uniform(), 3));
      sentence.push_back("w" + std::to_string(w));
    }
  }
  return text;
}

TEST(Arpa, BacksOffAsWritten) {
  const NgramModel lm = NgramModel::ParseArpa(kArpa, "lm.arpa");
  EXPECT_EQ(lm.order(), 3);
  EXPECT_NEAR(Log10Of(lm, {"<s>", "a"}, "b"), -0.375, 1e-6);
  EXPECT_NEAR(Log10Of(lm, {"<s>", "a"}, "a"), -0.0625 - 0.25 - 1.0, 1e-6);
  EXPECT_NEAR(Log10Of(lm, {"b", "a"}, "b"), -0.2, 1e-6);
  EXPECT_NEAR(Log10Of(lm, {"b"}, "a"), -1.0, 1e-6);
  EXPECT_NEAR(Log10Of(lm, {"a", "b"}, "</s>"), -1.5, 1e-6);
  EXPECT_NEAR(Log10Of(lm, {"<s>"}, "b"), -0.5 - 0.5, 1e-6);
}

TEST(Arpa, SurvivesItsOwnPrinting) {
  const NgramModel lm = NgramModel::ParseArpa(kArpa, "lm.arpa");
  const NgramModel again = NgramModel::ParseArpa(lm.ToArpa(), "again");
  EXPECT_EQ(again.ToArpa(), lm.ToArpa());
  ASSERT_EQ(again.nodes().size(), lm.nodes().size());
}

TEST(Arpa, TakesOneFormOfUnicode) {
  const NgramModel model = NgramModel::ParseArpa(
      "\\data\\\nngram 1=2\nngram 2=1\n\\1-grams:\n-1 </s>\n-1 Caf\u00e9\n\\2-grams:\n-1 Cafe\u0301 </s>\n\\end\\\n",
      "x.arpa");
  EXPECT_GE(model.WordId("Caf\u00e9"), 0);
  EXPECT_EQ(model.NumNgrams(2), 1);
}

TEST(Arpa, NamesFileAndLineOfErrors) {
  EXPECT_THAT(ErrorOf("nothing\n"), HasSubstr("lm.arpa:1: this is no ARPA"));
  EXPECT_THAT(ErrorOf(Replaced(kArpa, "ngram 1=4", "ngram 1=5")), HasSubstr("announces 5 1-grams, but 4 are here"));
  EXPECT_THAT(ErrorOf(Replaced(kArpa, "ngram 1=4", "ngram 1=3")), HasSubstr("lm.arpa:12: more 1-grams than the 3"));
  EXPECT_THAT(ErrorOf(Replaced(kArpa, "ngram 1=4", "ngram 1=x")), HasSubstr("lm.arpa:4"));
  EXPECT_THAT(ErrorOf(Replaced(kArpa, "ngram 1=4", "ngram 2=4")), HasSubstr("lm.arpa:4"));
  EXPECT_THAT(ErrorOf(Replaced(kArpa, "-0.5\tb\n", "0.5\tb\n")),
              HasSubstr("lm.arpa:9: log probability 0.5 is positive"));
  EXPECT_THAT(ErrorOf(Replaced(kArpa, "-0.5\tb\n", "nan\tb\n")), HasSubstr("lm.arpa:9"));
  EXPECT_THAT(ErrorOf(Replaced(kArpa, "a b\n", "a c\n")), HasSubstr("lm.arpa:15: the word 'c'"));
  EXPECT_THAT(ErrorOf(Replaced(kArpa, "b </s>", "a b")), HasSubstr("lm.arpa:17: the n-gram stands here a second time"));
  EXPECT_THAT(ErrorOf(Replaced(kArpa, "\\end\\", "")), HasSubstr("no \\end\\"));
  EXPECT_THAT(ErrorOf(Replaced(kArpa, "\\3-grams:", "\\4-grams:")), HasSubstr("lm.arpa:19: expected '\\3-grams:'"));
  EXPECT_THAT(ErrorOf(Replaced(kArpa, "<s> a b\n", "<s> a b -1 -1\n")),
              HasSubstr("lm.arpa:20: expected a probability"));
  EXPECT_THAT(ErrorOf("\\data\\\nngram 1=0\n\\1-grams:\n\\end"), HasSubstr("lm.arpa:4"));
}

TEST(Arpa, IsReadThroughGzip) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "lm.arpa.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, kArpa);
  gzclose(file);
  EXPECT_EQ(NgramModel::ReadArpa(path).words().size(), 4U);
  const std::string bytes = ReadFile(path);
  WriteFileAtomically(path, std::string_view(bytes).substr(0, bytes.size() - 20));
  EXPECT_THROW(NgramModel::ReadArpa(path), InputError);
}

void ExpectSumsOfOne(const NgramModel& lm, int order) {
  for (size_t node = 0; node < lm.nodes().size(); ++node) {
    if (lm.nodes()[node].depth >= order) continue;
    double sum = 0.0;
    for (size_t word = 0; word < lm.words().size(); ++word) {
      sum += std::exp(static_cast<double>(lm.Step(static_cast<int32_t>(node), static_cast<int32_t>(word)).log_prob));
    }
    ASSERT_NEAR(sum, 1.0, 2e-5) << "history " << node;
  }
}

// Every history's probabilities sum to 1: seen, unseen and unknown histories, both methods, all orders.
TEST(NgramEstimate, ProbabilitiesSumToOne) {
  for (const char* method : {"witten-bell", "kneser-ney"}) {
    for (int order = 1; order <= 4; ++order) {
      SCOPED_TRACE(::testing::Message() << method << " order " << order);
      for (const int size : {1, 5, 300}) {
        ExpectSumsOfOne(EstimateNgram(RandomText(5, size, 12), {}, {order, method, 1}), order);
      }
      // "a b" stands behind a word alone that the vocabulary lacks; "a b c" begins with it.
      ExpectSumsOfOne(EstimateNgram({{"x", "a", "b", "c"}, {"c", "b"}}, {"a", "b", "c"}, {order, method, 1}), order);
    }
  }
}

TEST(NgramEstimate, WittenBellByHand) {
  const NgramModel lm = EstimateNgram({{"a", "b"}, {"a"}}, {}, {2, "witten-bell", 1});
  // Unigrams a 2, b 1, </s> 2; three kinds, total 5, vocabulary 3.
  const double b = (1 + 3.0 / 3) / 8, a = (2 + 3.0 / 3) / 8;
  EXPECT_NEAR(Log10Of(lm, {"b"}, "a"), std::log10(a * 1 / (1 + 1)), 1e-5);
  EXPECT_NEAR(Log10Of(lm, {"a"}, "b"), std::log10((1 + 2 * b) / (2 + 2)), 1e-5);
}

TEST(NgramEstimate, GivesEveryWordOfTheVocabularyAChance) {
  for (const char* method : {"witten-bell", "kneser-ney"}) {
    const NgramModel lm = EstimateNgram({{"a", "x", "b"}}, {"a", "b", "c", "<unk>"}, {2, method, 1});
    EXPECT_LT(lm.WordId("x"), 0);
    EXPECT_GT(Log10Of(lm, {"a"}, "c"), -5);
    EXPECT_GT(Log10Of(lm, {"a"}, "<unk>"), Log10Of(lm, {"a"}, "c"));
  }
  EXPECT_THROW(EstimateNgram({}, {}, {}), InputError);
}

TEST(NgramEstimate, KneserNeyPredictsUnseenTextBetterThanWordFrequencies) {
  Rng rng(11);
  Sentences train, test;
  // A Markov chain over 20 words.
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::string> sentence;
    uint64_t w = rng.Below(20);
    for (int n = 0; n < 10; ++n) {
      sentence.push_back("w" + std::to_string(w));
      w = (w * 7 + rng.Below(3)) % 20;
    }
    (i % 10 == 0 ? test : train).push_back(sentence);
  }
  const auto perplexity = [&](int order, const char* method) {
    return MeasurePerplexity(EstimateNgram(train, {}, {order, method, 1}), test).Perplexity();
  };
  for (const char* method : {"witten-bell", "kneser-ney"}) {
    EXPECT_LT(perplexity(2, method), 0.4 * perplexity(1, method));
    EXPECT_LT(perplexity(3, method), 1.05 * perplexity(2, method));
  }
}

TEST(Perplexity, MatchesThePublishedFigureOfTheSharedModel) {
  const auto shared = SharedDir("data/minilibri");
  if (!shared) GTEST_SKIP() << "no shared data (set ANTIPHON_SHARED)";
  const NgramModel lm = NgramModel::ReadArpa(*shared / "lang/lm_bg.arpa.gz");
  Sentences sentences;
  std::istringstream lines(ReadFile(*shared / "data/test/text"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string word;
    fields >> word;
    auto& sentence = sentences.emplace_back();
    while (fields >> word) sentence.push_back(word);
  }
  const PerplexityResult result = MeasurePerplexity(lm, sentences);
  EXPECT_NEAR(result.Perplexity(), 272, 3);
  EXPECT_NEAR(100.0 * result.oov_words / result.words, 3.2, 0.1);
}

// Least cost of a sentence of labels in an acceptor with back-off arcs (label `backoff`).
double SentenceCost(const fst::StdVectorFst& g, std::vector<int32_t> sentence, int32_t backoff) {
  std::map<std::pair<int, size_t>, double> best;
  const std::function<double(int, size_t)> cost = [&](int state, size_t at) -> double {
    double least = at == sentence.size() ? g.Final(state).Value() : INFINITY;
    for (fst::ArcIterator<fst::StdVectorFst> arcs(g, state); !arcs.Done(); arcs.Next()) {
      const auto& arc = arcs.Value();
      if (arc.ilabel == backoff) least = std::min(least, arc.weight.Value() + cost(arc.nextstate, at));
      if (at < sentence.size() && arc.ilabel == sentence[at]) {
        least = std::min(least, arc.weight.Value() + cost(arc.nextstate, at + 1));
      }
    }
    return least;
  };
  return cost(g.Start(), 0);
}

TEST(NgramFst, CostsAreTheModelsProbabilities) {
  const NgramModel lm = EstimateNgram(RandomText(9, 60, 6), {}, {3, "kneser-ney", 1});
  constexpr int32_t kBackoff = 1000;
  fst::StdVectorFst g;
  const auto left_out = NgramToFst(
      lm, [&](std::string_view w) { return lm.WordId(w) + 1; }, kBackoff, &g);
  EXPECT_TRUE(left_out.empty());
  for (const auto& sentence : RandomText(10, 50, 6)) {
    double log_prob = 0.0;
    std::vector<int32_t> labels;
    int32_t state = lm.StartState();
    for (const auto& word : sentence) {
      const auto step = lm.Step(state, lm.WordId(word));
      log_prob += step.log_prob;
      state = step.next_state;
      labels.push_back(lm.WordId(word) + 1);
    }
    log_prob += lm.Step(state, lm.WordId("</s>")).log_prob;
    // Backing off where the longer n-gram exists is allowed in the transducer, and may be cheaper.
    const double cost = SentenceCost(g, labels, kBackoff);
    EXPECT_LE(cost, -log_prob + 1e-4);
    EXPECT_GE(cost, -log_prob - 3.0);
  }
}

TEST(NgramFst, LeavesOutWordsWithoutPronunciation) {
  const NgramModel lm = NgramModel::ParseArpa(kArpa, "lm.arpa");
  fst::StdVectorFst g;
  const auto left_out = NgramToFst(
      lm, [](std::string_view w) { return w == "b" ? 7 : -1; }, 99, &g);
  EXPECT_EQ(left_out, std::vector<std::string>{"a"});
  // Backing off before the sentence end is cheaper than the bigram, and allowed.
  EXPECT_NEAR(SentenceCost(g, {7}, 99), (0.5 + 0.5 + 0.75) * kLn10, 1e-4);
}

TEST(Grammar, ReadsOpenFstText) {
  const auto lookup = [](std::string_view w) { return w == "YES" ? 1 : w == "NO" ? 2 : -1; };
  fst::StdVectorFst g;
  const auto left_out = ParseGrammar("# answers\n0 1 YES YES 0.5\n0 1 NO\n0 1 PERHAPS\n1 0 <eps> <eps> 0.25\n1 1.5\n",
                                     "g.txt", lookup, &g);
  EXPECT_EQ(left_out, std::vector<std::string>{"PERHAPS"});
  EXPECT_NEAR(SentenceCost(g, {1}, 0), 2.0, 1e-6);
  EXPECT_NEAR(SentenceCost(g, {1, 2}, 0), 2.25, 1e-6);
  const auto error = [&](const std::string& text) -> std::string {
    try {
      fst::StdVectorFst broken;
      ParseGrammar(text, "g.txt", lookup, &broken);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error("0 1 YES YES x\n"), HasSubstr("g.txt:1: expected a weight"));
  EXPECT_THAT(error("0 1 YES\n-1 2 NO\n"), HasSubstr("g.txt:2: expected a state number"));
  EXPECT_THAT(error("0 1 YES\n"), HasSubstr("accepts no sentence"));
  EXPECT_THAT(error(""), HasSubstr("accepts no sentence"));
}

TEST(WordLoop, AcceptsAnySequence) {
  fst::StdVectorFst g;
  const auto left_out = WordLoopFst(
      {"b", "a", "c", "a"}, [](std::string_view w) { return w == "c" ? -1 : w[0] - 'a' + 1; }, &g);
  EXPECT_EQ(left_out, std::vector<std::string>{"c"});
  EXPECT_NEAR(SentenceCost(g, {1, 2, 1}, -1), 4 * std::log(3.0), 1e-5);
}

}  // namespace
}  // namespace antiphon::decode
