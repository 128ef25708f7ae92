// Hotwords and lists of words: the automaton against counting by hand, the search against enumeration.
#include "decode/search/word_bias.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "decode/search/decoder.h"
#include "decode/search/matrix_scores.h"
#include "decode/search/word_cost.h"
#include "temporary_folder.h"

namespace antiphon::decode {
namespace {

// One state on which every word may be said in every frame, class by class: word w by class w − 1.
Graph Loop(int words, float cost = 10.0F) {
  std::vector<GraphArc> arcs;
  std::vector<int32_t> pdfs = {0};
  std::vector<std::string> names = {"<eps>"};
  for (int w = 1; w <= words; ++w) {
    arcs.push_back({w, w, cost, 0});
    pdfs.push_back(w - 1);
    names.push_back(std::string(1, static_cast<char>('a' + w - 1)));
  }
  names.push_back("never");
  std::vector<GraphState> states = {{0, 0, static_cast<uint32_t>(arcs.size()), 0.5F}};
  return Graph(std::move(states), std::move(arcs), 0, std::move(names), std::move(pdfs));
}

// What a word sequence earns: the cost of walking it, its end included.
double Earned(const WordBias& bias, const std::vector<int32_t>& words) {
  int32_t context = 0;
  double cost = 0;
  for (const int32_t word : words) {
    const WordBias::Step step = bias.Next(context, word);
    cost += static_cast<double>(step.cost);
    context = step.context;
  }
  return -(cost + static_cast<double>(bias.FinalCost(context)));
}

using Phrases = std::vector<std::pair<std::string, double>>;

TEST(WordBias, RewardsWholePhrasesAndTakesBackTheRest) {
  const WordBias bias(Loop(5), Phrases{{"a b c", 2}, {"d", 1}, {"b e", 3}});
  EXPECT_TRUE(bias.remarks().empty());
  EXPECT_NEAR(Earned(bias, {1, 2, 3}), 6, 1e-6);
  EXPECT_NEAR(Earned(bias, {1, 2}), 0, 1e-6) << "not the whole phrase";
  EXPECT_NEAR(Earned(bias, {1, 2, 4}), 1, 1e-6) << "d alone";
  EXPECT_NEAR(Earned(bias, {1, 2, 5}), 6, 1e-6) << "b e, whose b belonged to a b at first";
  EXPECT_NEAR(Earned(bias, {1, 1, 2, 3}), 6, 1e-6);
  EXPECT_NEAR(Earned(bias, {4, 4, 3}), 2, 1e-6);
  EXPECT_NEAR(Earned(bias, {}), 0, 1e-6);
}

TEST(WordBias, WordsMayBeInOtherLettersThanTheGraphs) {
  const WordBias bias(Loop(5), Phrases{{"A b", 2}, {"F", 1}});
  EXPECT_NEAR(Earned(bias, {1, 2}), 4, 1e-6);
  ASSERT_EQ(bias.remarks().size(), 1U);
  EXPECT_THAT(bias.remarks()[0], ::testing::HasSubstr("'F'"));
}

TEST(WordBias, APhraseWithinAnotherStaysEarned) {
  const WordBias prefix(Loop(5), Phrases{{"a b", 2}, {"a b c d", 2}});
  EXPECT_NEAR(Earned(prefix, {1, 2, 3, 5}), 4, 1e-6);
  EXPECT_NEAR(Earned(prefix, {1, 2, 3, 4}), 8, 1e-6);
  const WordBias suffix(Loop(5), Phrases{{"b", 2}, {"a b c", 2}});
  EXPECT_NEAR(Earned(suffix, {1, 2, 5}), 2, 1e-6);
  EXPECT_NEAR(Earned(suffix, {1, 2, 3}), 6, 1e-6);
}

// New York City, York Times, York: what of one is in the other earns but once.
TEST(WordBias, APhraseCountsOnceWhereAnotherOneGoesOnWithIt) {
  const WordBias york(Loop(5), Phrases{{"b", 2}, {"b c", 2}, {"a b d", 2}});
  EXPECT_NEAR(Earned(york, {5, 2, 3}), 4, 1e-6);
  EXPECT_NEAR(Earned(york, {1, 2, 3}), 4, 1e-6) << "as if the first word had begun no phrase";
  EXPECT_NEAR(Earned(york, {1, 2, 4}), 6, 1e-6);
  EXPECT_NEAR(Earned(york, {1, 2, 5}), 2, 1e-6);
  const WordBias whole(Loop(5), Phrases{{"b", 2}, {"a b", 2}, {"b c d", 2}});
  EXPECT_NEAR(Earned(whole, {1, 2, 3}), 4, 1e-6) << "b c d is not whole, and b is in a b";
  EXPECT_NEAR(Earned(whole, {5, 2, 3, 4}), 6, 1e-6);
  const WordBias inside(Loop(5), Phrases{{"b", 2}, {"a b c d", 2}});
  EXPECT_NEAR(Earned(inside, {1, 2, 3, 5}), 2, 1e-6);
}

struct Occurrence {
  size_t begin, end;
  bool Contains(const Occurrence& other) const { return begin <= other.begin && other.end <= end; }
  bool Overlaps(const Occurrence& other) const { return begin < other.begin && other.begin < end && end < other.end; }
};

// Every place of every phrase in a text of letters.
std::vector<Occurrence> PlacesOf(const std::vector<std::string>& phrases, const std::string& said) {
  std::vector<Occurrence> all;
  for (const std::string& phrase : phrases) {
    for (size_t at = said.find(phrase); at != std::string::npos; at = said.find(phrase, at + 1)) {
      all.push_back({at, at + phrase.size()});
    }
  }
  return all;
}

// Where no phrases overlap, the words of those that lie in no other one are counted; else they are the most that can
// be earned, as what lies in both may count once.
TEST(WordBias, CountsTheLongestPhrasesOfATextThatIsLookedThrough) {
  int certain = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const auto letters = [&](uint64_t least, uint64_t most, uint64_t kinds) {
      std::string text;
      for (uint64_t n = least + rng.Below(most - least + 1); n > 0; --n) {
        text += static_cast<char>('a' + static_cast<char>(rng.Below(kinds)));
      }
      return text;
    };
    const uint64_t kinds = 2 + seed % 3;
    std::vector<std::string> texts;
    while (texts.size() < 4) {
      const std::string text = letters(1, 5, kinds);
      if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
    }
    Phrases phrases;
    for (const std::string& text : texts) {
      std::string words;
      for (const char letter : text) words += std::string(1, letter) + " ";
      phrases.emplace_back(words, 1);
    }
    const WordBias bias(Loop(5), phrases);
    for (int round = 0; round < 50; ++round) {
      const std::string said = letters(0, 12, kinds + 1);
      const std::vector<Occurrence> all = PlacesOf(texts, said);
      double words = 0;
      bool apart = true;
      for (const Occurrence& one : all) {
        const auto around = [&](const Occurrence& other) { return other.Contains(one) && !one.Contains(other); };
        if (std::none_of(all.begin(), all.end(), around)) words += static_cast<double>(one.end - one.begin);
        apart = apart && std::none_of(all.begin(), all.end(), [&](const auto& other) { return one.Overlaps(other); });
      }
      std::vector<int32_t> ids;
      for (const char letter : said) ids.push_back(letter - 'a' + 1);
      const double earned = Earned(bias, ids);
      EXPECT_LE(earned, words + 1e-4) << said;
      if (apart) {
        EXPECT_NEAR(earned, words, 1e-4) << said;
      }
      certain += apart && words > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(certain, 1000);
}

// One phrase on random words: as many bonuses as there are words in its occurrences, found from the left.
TEST(WordBias, CountsOccurrencesOfAPhrase) {
  const WordBias bias(Loop(2), Phrases{{"a a b", 1}});
  Rng rng(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int32_t> words;
    for (uint64_t n = rng.Below(12); n > 0; --n) words.push_back(static_cast<int32_t>(1 + rng.Below(2)));
    int expected = 0;
    for (size_t i = 0; i + 3 <= words.size(); ++i) {
      if (words[i] == 1 && words[i + 1] == 1 && words[i + 2] == 2) expected += 3;
    }
    EXPECT_NEAR(Earned(bias, words), expected, 1e-5);
  }
}

// The same without an automaton: what was said of a phrase is the longest end of the words that begins one.
class BiasByHand {
 public:
  // By phrase, as ids.
  explicit BiasByHand(std::map<std::vector<int32_t>, double> phrases) : phrases_(std::move(phrases)) {}

  double Earned(const std::vector<int32_t>& words) const {
    double earned = 0;
    std::vector<int32_t> said;
    for (const int32_t word : words) {
      std::vector<int32_t> next = said;
      next.push_back(word);
      if (Begins(next)) {
        earned += Bonus(next);
      } else {
        earned -= Open(said);
        do {
          next.erase(next.begin());
        } while (!Begins(next));
        if (!next.empty()) earned += Score(next) - Inside(First(next, next.size() - 1));
      }
      said = next;
    }
    return earned - Open(said);
  }

 private:
  static std::vector<int32_t> First(const std::vector<int32_t>& words, size_t n) {
    return {words.begin(), words.begin() + static_cast<std::ptrdiff_t>(n)};
  }
  bool Begins(const std::vector<int32_t>& words) const {
    return words.empty() || std::any_of(phrases_.begin(), phrases_.end(), [&](const auto& phrase) {
             return phrase.first.size() >= words.size() && First(phrase.first, words.size()) == words;
           });
  }
  double Bonus(const std::vector<int32_t>& words) const {
    double most = -HUGE_VAL;
    for (const auto& [phrase, bonus] : phrases_) {
      if (phrase.size() >= words.size() && First(phrase, words.size()) == words) most = std::max(most, bonus);
    }
    return most;
  }
  double Score(const std::vector<int32_t>& words) const {
    double sum = 0;
    for (size_t n = 1; n <= words.size(); ++n) sum += Bonus(First(words, n));
    return sum;
  }
  // What whole phrases in the words that begin one earn, at most what the words have.
  double Inside(const std::vector<int32_t>& words) const {
    if (words.empty()) return 0;
    if (phrases_.contains(words)) return Score(words);
    const double before = Inside(First(words, words.size() - 1));
    for (size_t n = 1; n < words.size(); ++n) {
      const std::vector<int32_t> end(words.begin() + static_cast<std::ptrdiff_t>(n), words.end());
      if (!phrases_.contains(end)) continue;
      const double gain = Score(end) - Inside(First(end, end.size() - 1));
      return gain < 0 ? before + gain : std::min(before + gain, std::max(before, Score(words)));
    }
    return before;
  }
  double Open(const std::vector<int32_t>& said) const { return Score(said) - Inside(said); }

  std::map<std::vector<int32_t>, double> phrases_;
};

TEST(WordBias, EarnsWhatIsFoundWithoutAnAutomaton) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Phrases phrases;
    std::map<std::vector<int32_t>, double> by_hand;
    while (by_hand.size() < 4) {
      std::vector<int32_t> ids;
      std::string text;
      for (uint64_t n = 1 + rng.Below(5); n > 0; --n) {
        ids.push_back(static_cast<int32_t>(1 + rng.Below(2)));
        text += ids.back() == 1 ? "a " : "b ";
      }
      const double bonus = rng.Uniform(-1, 4);
      if (by_hand.emplace(ids, bonus).second) phrases.emplace_back(text, bonus);
    }
    const WordBias bias(Loop(3), phrases);
    ASSERT_TRUE(bias.remarks().empty()) << bias.remarks()[0];
    const BiasByHand expected(by_hand);
    for (int round = 0; round < 50; ++round) {
      std::vector<int32_t> words;
      for (uint64_t n = rng.Below(12); n > 0; --n) words.push_back(static_cast<int32_t>(rng.Below(7) / 3 + 1));
      EXPECT_NEAR(Earned(bias, words), expected.Earned(words), 1e-4);
    }
  }
}

// Every end of it begins it too: whoever looks at all of them does not come to an end with so many words.
TEST(WordBias, OneWordAgainAndAgainIsNoProblem) {
  constexpr size_t kWords = 500000;
  std::string text;
  for (size_t n = 0; n < kWords; ++n) text += "a ";
  const Graph graph = Loop(2);
  const WordBias bias(graph, Phrases{{text, 1}, {"a a", 1}});
  EXPECT_NEAR(Earned(bias, std::vector<int32_t>(kWords, 1)), double{kWords}, 1e-3);
  EXPECT_NEAR(Earned(bias, std::vector<int32_t>(30000, 1)), 30000, 1e-3) << "the short phrase, again and again";
  EXPECT_NEAR(Earned(bias, {1}), 0, 1e-6);
}

DecoderOptions Options(double beam) {
  DecoderOptions options;
  options.beam = options.lattice_beam = beam;
  options.acoustic_scale = 1;
  options.min_active = 0;
  return options;
}

// All word sequences of a length, scored by hand.
std::vector<int32_t> BestByHand(const Matrix& scores, const WordBias& bias, double* best_cost) {
  std::vector<int32_t> best;
  *best_cost = HUGE_VAL;
  const auto frames = static_cast<size_t>(scores.rows());
  int64_t all = 1;
  for (size_t t = 0; t < frames; ++t) all *= scores.cols();
  for (int64_t code = 0; code < all; ++code) {
    std::vector<int32_t> words(frames);
    double cost = 0.5;
    int64_t rest = code;
    for (size_t t = 0; t < frames; ++t, rest /= scores.cols()) {
      words[t] = static_cast<int32_t>(1 + rest % scores.cols());
      cost += 2 - static_cast<double>(scores(static_cast<int64_t>(t), words[t] - 1));
    }
    cost -= Earned(bias, words);
    if (cost >= *best_cost) continue;
    *best_cost = cost;
    best = words;
  }
  return best;
}

TEST(WordBias, TheSearchFindsTheBestWithItsBonus) {
  const Graph graph = Loop(4, 2.0F);
  const WordBias bias(graph, Phrases{{"a b c", 0.7}, {"b d", 0.9}, {"c", -0.5}});
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(seed);
    Matrix scores(6, 4);
    for (int64_t i = 0; i < scores.size(); ++i) scores.data()[i] = static_cast<float>(rng.Normal() - 3);
    double best = 0;
    const std::vector<int32_t> expected = BestByHand(scores, bias, &best);
    MatrixScores source(scores);
    Decoder decoder(graph, Options(1e6), &bias);
    for (int chunk = 1; decoder.num_frames() < 6; ++chunk) decoder.Advance(source, chunk);
    decoder.Finish();
    EXPECT_EQ(decoder.BestPath().words, expected);
    EXPECT_NEAR(decoder.BestPath().cost.Total(1), best, 1e-3);
    const auto paths = NBest(decoder.RawLattice(), {1, 0}, 3);
    EXPECT_EQ(paths.front().words, expected);
    EXPECT_NEAR(paths.front().cost.Total(1), best, 1e-3);
  }
}

TEST(WordBias, ABonusLeavesAWordSomeOfItsCost) {
  const WordBias cheap(Loop(3, 2.0F), Phrases{{"a", 5}, {"b a", 0.5}, {"c", -7}});
  ASSERT_EQ(cheap.remarks().size(), 1U);
  EXPECT_EQ(cheap.remarks()[0], "'a' gets a bonus of 1.00 instead of 5.00, as it costs only 2.00 in this graph");
  EXPECT_NEAR(Earned(cheap, {1, 1}), 2, 1e-6);
  EXPECT_NEAR(Earned(cheap, {2, 1}), 1, 1e-6) << "0.5 for each word of the phrase; the rest of a's goes";
  EXPECT_NEAR(Earned(cheap, {3}), -7, 1e-6);
  const WordBias rare(Loop(3, 10.0F), Phrases{{"a", 8}, {"b", 9}});
  EXPECT_EQ(rare.remarks().size(), 1U);
  EXPECT_NEAR(Earned(rare, {1, 2}), 16, 1e-6);
}

// Two words behind one common arc, given at its end: what leads there belongs to both.
TEST(WordCost, CountsTheWholeWayFromTheWordBefore) {
  std::vector<GraphArc> arcs = {{0, 0, 0.25F, 1},                                       // 0 → 1 without a frame
                                {1, 0, 1.5F, 2},   {1, 1, 0.5F, 0},  {1, 0, 0.5F, 1},   // 1: on to 2; word 1; a loop
                                {2, 2, 0.125F, 0}, {2, 3, -9.0F, 0}, {2, 2, 7.0F, 1}};  // 2: words 2 and 3
  const Graph graph({{0, 1, 1, 0.0F}, {1, 1, 4, HUGE_VALF}, {4, 4, 7, HUGE_VALF}}, std::move(arcs), 0,
                    {"<eps>", "a", "b", "c"}, {0, 0, 1});
  const auto costs = UsualCosts(graph, {1, 2, 3});
  EXPECT_FLOAT_EQ(costs.at(1), 0.5F) << "a word 2 ends in state 1, which needs no more than the arc";
  EXPECT_FLOAT_EQ(costs.at(2), 8.5F) << "the upper one of two places";
  EXPECT_FLOAT_EQ(costs.at(3), 0.0F);
  EXPECT_EQ(UsualCosts(graph, {}).size(), 0U);
}

TEST(WordBias, AListOfWordsLeavesOutAllOthers) {
  const testing::TemporaryFolder folder;
  WriteFileAtomically(folder / "words", "# comment\nb\n\nd\nzebra\n");
  const Graph graph = Loop(4);
  const WordBias bias(graph, {.hotwords = "", .hotword_bonus = 0, .word_list = (folder / "words").string()});
  ASSERT_EQ(bias.remarks().size(), 1U);
  EXPECT_NE(bias.remarks()[0].find("line 5"), std::string::npos) << bias.remarks()[0];
  Matrix scores(5, 4);
  for (int64_t t = 0; t < 5; ++t) scores(t, t % 4) = 3;
  MatrixScores source(scores);
  Decoder decoder(graph, Options(1e6), &bias);
  decoder.Advance(source);
  decoder.Finish();
  for (const int32_t word : decoder.BestPath().words) EXPECT_TRUE(word == 2 || word == 4);
  EXPECT_EQ(decoder.BestPath().words[1], 2);
  EXPECT_EQ(decoder.BestPath().words[3], 4);
}

TEST(WordBias, TakesOneFormOfUnicode) {
  std::vector<GraphArc> arcs = {{1, 1, 10.0F, 0}};
  std::vector<GraphState> states = {{0, 0, 1, 0.5F}};
  const Graph graph(std::move(states), std::move(arcs), 0, {"<eps>", "Caf\u00e9"}, {0, 0});
  EXPECT_TRUE(WordBias(graph, Phrases{{"Cafe\u0301", 1}}).remarks().empty());
  const ::antiphon::testing::TemporaryFolder folder;
  WriteFileAtomically(folder / "words.txt", "Cafe\u0301\n");
  WordBiasOptions options;
  options.word_list = (folder / "words.txt").string();
  EXPECT_TRUE(WordBias(graph, options).remarks().empty());
}

TEST(WordBias, SaysWhichPhrasesItCannotPrefer) {
  const testing::TemporaryFolder folder;
  WriteFileAtomically(folder / "hot", "a b\t3\nc zebra\nnever a\n  d   c \r\n");
  const WordBias bias(Loop(4), {.hotwords = (folder / "hot").string(), .hotword_bonus = 2, .word_list = ""});
  ASSERT_EQ(bias.remarks().size(), 2U);
  EXPECT_NE(bias.remarks()[0].find("'c zebra' cannot be preferred: 'zebra' is not in the graph's vocabulary"),
            std::string::npos)
      << bias.remarks()[0];
  EXPECT_NE(bias.remarks()[1].find("the grammar never says 'never'"), std::string::npos) << bias.remarks()[1];
  EXPECT_NEAR(Earned(bias, {1, 2}), 6, 1e-6);
  EXPECT_NEAR(Earned(bias, {4, 3}), 4, 1e-6);
}

TEST(WordBias, TakesAFileOrTheHotwordsThemselves) {
  const testing::TemporaryFolder folder;
  WriteFileAtomically(folder / "hot, words", "a b\nd\n");
  for (const std::string& hotwords : {std::string("a  b,d, "), (folder / "hot, words").string()}) {
    const WordBias bias(Loop(4), {.hotwords = hotwords, .hotword_bonus = 2, .word_list = ""});
    EXPECT_TRUE(bias.remarks().empty()) << bias.remarks()[0];
    EXPECT_NEAR(Earned(bias, {1, 2}), 4, 1e-6);
    EXPECT_NEAR(Earned(bias, {1, 4}), 2, 1e-6);
  }
  EXPECT_THROW(WordBias(Loop(4), {.hotwords = "none.txt", .hotword_bonus = 2, .word_list = ""}), IoError);
  const WordBias slash(Loop(4), {.hotwords = "ac/dc,d", .hotword_bonus = 2, .word_list = ""});
  EXPECT_EQ(slash.remarks().size(), 1U);
}

TEST(WordBias, NamesFileAndLineOfWhatItCannotRead) {
  const testing::TemporaryFolder folder;
  WriteFileAtomically(folder / "hot", "a b\tmuch\n");
  const auto make = [&](const WordBiasOptions& options) { WordBias(Loop(4), options); };
  EXPECT_THROW(make({.hotwords = (folder / "hot").string(), .hotword_bonus = 2, .word_list = ""}), InputError);
  EXPECT_THROW(make({.hotwords = (folder / "none").string(), .hotword_bonus = 2, .word_list = ""}), IoError);
  WriteFileAtomically(folder / "empty", "# nothing\n");
  EXPECT_THROW(make({.hotwords = "", .hotword_bonus = 2, .word_list = (folder / "empty").string()}), InputError);
}

}  // namespace
}  // namespace antiphon::decode
