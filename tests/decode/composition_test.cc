// Graphs that searches put together say what HCLG says, at the same cost.
#include "decode/graph/composition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "decode/graph/constrained_graph.h"
#include "decode/graph/graph_builder.h"
#include "decode/graph/graph_walk.h"
#include "decode/graph/parts_builder.h"
#include "decode/lm/ngram_estimate.h"
#include "decode/lm/ngram_fst.h"
#include "decode/search/word_cost.h"
#include "decode/toy_model.h"
#include "decode/toy_search.h"
#include "hmm/graph/openfst.h"

namespace antiphon::decode {
namespace {

using ::testing::HasSubstr;

// Words of one to four phones out of five: homophones, words that begin others, several pronunciations.
hmm::Lexicon RandomLexicon(Rng& rng, bool weighted) {
  std::string text;
  std::set<std::string> seen;
  for (int word = 0; word < 7; ++word) {
    for (uint64_t n = 1 + rng.Below(2); n > 0; --n) {
      std::string phones;
      for (uint64_t length = 1 + rng.Below(3); length > 0; --length) phones += " P" + std::to_string(rng.Below(4));
      const std::string name = "W" + std::to_string(word);
      if (!seen.insert(name + phones).second) continue;
      text += name + (weighted ? fmt::format(" {:.2f}", rng.Uniform(0.2, 1.0)) : "") + phones + "\n";
    }
  }
  hmm::LexiconOptions options;
  options.silence_phones = {"SIL"};
  return hmm::Lexicon::Parse(text, "lexicon.txt", options);
}

hmm::PronunciationModel RandomPronunciations(const hmm::Lexicon& lexicon, Rng& rng) {
  hmm::PronunciationModel model;
  model.pause_at_start = rng.Uniform(0.2, 0.8);
  model.end_factor_after_pause = rng.Uniform(0.5, 2.0);
  model.end_factor_after_none = rng.Uniform(0.5, 2.0);
  for (size_t e = 0; e < lexicon.entries().size(); ++e) {
    model.entries.push_back(
        {rng.Uniform(0.2, 1.0), rng.Uniform(0.2, 0.8), rng.Uniform(0.5, 2.0), rng.Uniform(0.5, 2.0)});
  }
  return model;
}

fst::StdVectorFst RandomNgrams(const hmm::Lexicon& lexicon, int order, Rng& rng) {
  std::vector<std::vector<std::string>> sentences;
  for (int i = 0; i < 12; ++i) {
    std::vector<std::string>& sentence = sentences.emplace_back();
    for (uint64_t n = 1 + rng.Below(3); n > 0; --n) {
      sentence.push_back(lexicon.Word(static_cast<int32_t>(1 + rng.Below(static_cast<uint64_t>(lexicon.num_words())))));
    }
  }
  fst::StdVectorFst grammar;
  NgramToFst(
      EstimateNgram(sentences, {}, {order, "witten-bell", 1}),
      [&](std::string_view w) { return lexicon.FindWord(w) > 0 ? lexicon.FindWord(w) : -1; }, lexicon.backoff_word(),
      &grammar);
  return grammar;
}

// Words, states and a third of the arcs doubled by others of the same word, which only determinisation tells apart.
fst::StdVectorFst RandomGrammar(const hmm::Lexicon& lexicon, Rng& rng) {
  fst::StdVectorFst grammar;
  constexpr int kStates = 5;
  for (int s = 0; s < kStates; ++s) grammar.AddState();
  grammar.SetStart(0);
  grammar.SetFinal(kStates - 1, 0.5F);
  for (int s = 0; s + 1 < kStates; ++s) {
    for (int n = 0; n < 3; ++n) {
      const auto word = static_cast<int32_t>(1 + rng.Below(static_cast<uint64_t>(lexicon.num_words())));
      const int to = s + 1 + static_cast<int>(rng.Below(static_cast<uint64_t>(kStates - s - 1)));
      grammar.AddArc(s, {word, word, static_cast<float>(rng.Uniform(0.1, 2.0)), to});
      if (n == 0) grammar.AddArc(s, {0, 0, 1.0F, s + 1});
    }
  }
  fst::Connect(&grammar);
  return grammar;
}

struct Both {
  Graph whole, composed;
};

Both BuildBoth(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, const fst::StdVectorFst& grammar,
               const hmm::PronunciationModel* pronunciations = nullptr) {
  fst::StdVectorFst fst;
  BuildGraphFst(model, lexicon, grammar, {.max_states = 20000}, &fst, pronunciations);
  auto parts =
      std::make_shared<const GraphParts>(BuildLexiconGraph(model, lexicon, {.max_states = 20000}, pronunciations),
                                         WordAutomaton::FromFst(grammar, lexicon.backoff_word(), 10000));
  return {GraphFromFst(fst, model, lexicon), GraphFromParts(std::move(parts), model, lexicon)};
}

std::map<Words, double> Sentences(const Graph& graph, const Matrix& scores, DecoderOptions options = Wide()) {
  const Decoded decoded = Decode(graph, scores, options);
  if (!decoded.reached_final) return {};
  return AllPaths(Determinize(decoded.raw, {kScale, 1e6, 10000000}));
}

// Costs are rounded to a thousandth per arc when graphs are built.
constexpr double kTolerance = 0.03;

void ExpectSameSearches(const Both& graphs, int frames, uint64_t seed) {
  const Matrix scores = RandomToyScores(seed, frames, graphs.whole.num_pdfs());
  const std::map<Words, double> expected = Sentences(graphs.whole, scores);
  ExpectSamePaths(Sentences(graphs.composed, scores), expected, kTolerance);
}

class Composed : public ::testing::TestWithParam<std::tuple<int, int, bool>> {};
INSTANTIATE_TEST_SUITE_P(WidthOrderPauses, Composed,
                         ::testing::Combine(::testing::Values(1, 2), ::testing::Values(1, 2, 3), ::testing::Bool()));

TEST_P(Composed, SaysWhatTheStaticGraphSaysAtTheSameCost) {
  const auto [width, order, pauses] = GetParam();
  size_t sentences = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed * 100 + static_cast<uint64_t>(width * 10 + order));
    const hmm::Lexicon lexicon = RandomLexicon(rng, seed % 2 == 0);
    const hmm::HmmModel model = ToyModel(lexicon, width);
    std::optional<hmm::PronunciationModel> pronunciations;
    if (pauses) pronunciations = RandomPronunciations(lexicon, rng);
    const Both graphs =
        BuildBoth(model, lexicon, RandomNgrams(lexicon, order, rng), pauses ? &*pronunciations : nullptr);
    const int frames = width == 2 ? 5 : 7;
    const Matrix scores = RandomToyScores(seed, frames, graphs.whole.num_pdfs());
    const std::map<Words, double> expected = Sentences(graphs.whole, scores);
    sentences += expected.size();
    ExpectSamePaths(Sentences(graphs.composed, scores), expected, kTolerance);
  }
  EXPECT_GT(sentences, 200U);
}

TEST(Composition, OfAGrammarThatMustBeDeterminised) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const hmm::Lexicon lexicon = RandomLexicon(rng, true);
    const hmm::HmmModel model = ToyModel(lexicon, 2);
    ExpectSameSearches(BuildBoth(model, lexicon, RandomGrammar(lexicon, rng)), 6, seed);
  }
}

// A beam compares what hypotheses have cost so far: looking ahead, they have paid as early as in the static graph.
TEST(Composition, LosesNoMoreToABeam) {
  double worse = 0, better = 0;
  int compared = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    const hmm::Lexicon lexicon = RandomLexicon(rng, true);
    const hmm::HmmModel model = ToyModel(lexicon, 2);
    const Both graphs = BuildBoth(model, lexicon, RandomNgrams(lexicon, 2, rng));
    const Matrix scores = RandomToyScores(seed, 25, graphs.whole.num_pdfs());
    DecoderOptions narrow = Wide();
    narrow.beam = 4;
    narrow.lattice_beam = 1;
    const Decoded whole = Decode(graphs.whole, scores, narrow), composed = Decode(graphs.composed, scores, narrow);
    if (!whole.reached_final || !composed.reached_final) continue;
    const double difference = composed.best.cost.Total(kScale) - whole.best.cost.Total(kScale);
    if (difference > kTolerance) ++worse;
    if (difference < -kTolerance) ++better;
    ++compared;
  }
  EXPECT_GT(compared, 15);
  EXPECT_LE(worse, better + 3);
}

// With room for nothing, what is known of the graph is forgotten again and again.
TEST(Composition, ForgetsWhatItMayAndFindsTheSame) {
  Rng rng(4);
  const hmm::Lexicon lexicon = RandomLexicon(rng, true);
  const hmm::HmmModel model = ToyModel(lexicon, 2);
  const Both graphs = BuildBoth(model, lexicon, RandomNgrams(lexicon, 3, rng));
  const Matrix scores = RandomToyScores(5, 200, graphs.whole.num_pdfs());
  DecoderOptions options;
  options.acoustic_scale = kScale;
  options.beam = 30;
  options.prune_interval = 3;
  const Decoded roomy = Decode(graphs.composed, scores, options);
  options.graph_cache_mb = 0;
  MatrixScores source(scores);
  Decoder decoder(graphs.composed, options);
  for (int utterance = 0; utterance < 3; ++utterance) {
    decoder.Restart();
    decoder.Advance(source, 7);
    while (decoder.num_frames() < 200) decoder.Advance(source, 40);
    decoder.Finish();
    EXPECT_EQ(decoder.BestPath().words, roomy.best.words);
    EXPECT_EQ(decoder.BestPath().alignment, roomy.best.alignment);
    EXPECT_NEAR(decoder.BestPath().cost.graph, roomy.best.cost.graph, 1e-3);
  }
}

TEST(Composition, GivesBackTheMemoryOfWhatItForgets) {
  Rng rng(4);
  const hmm::Lexicon lexicon = RandomLexicon(rng, false);
  const hmm::HmmModel model = ToyModel(lexicon, 2);
  const Both graphs = BuildBoth(model, lexicon, RandomNgrams(lexicon, 2, rng));
  GraphWalk walk(graphs.composed);
  const size_t least = walk.memory();
  const auto fill = [&] {
    for (int32_t s = 0; s < 40; ++s) {
      const GraphState made = walk.Expanded(s);
      for (uint32_t a = made.epsilon_begin; a < made.end; ++a) walk.Next(a);
    }
    EXPECT_GT(walk.memory(), least);
  };
  fill();
  walk.Forget();
  EXPECT_EQ(walk.memory(), least);
  fill();
  walk.Collect([](const auto&, const auto&) {});
  EXPECT_EQ(walk.memory(), least);
}

TEST(Composition, RefusesAModelWhoseStatesDependOnThePhoneThatFollows) {
  const hmm::Lexicon lexicon = ToyLexicon();
  try {
    BuildLexiconGraph(ToyModel(lexicon, 3), lexicon, {});
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("--on-the-fly"));
  }
}

TEST(Composition, CollectionKeepsWhatIsAskedFor) {
  Rng rng(4);
  const hmm::Lexicon lexicon = RandomLexicon(rng, false);
  const hmm::HmmModel model = ToyModel(lexicon, 2);
  const Both graphs = BuildBoth(model, lexicon, RandomNgrams(lexicon, 2, rng));
  Composition composition(graphs.composed.parts());
  for (int32_t s = 0; s < 40; ++s) {
    composition.Expand(s);
    const GraphState made = composition.states()[static_cast<size_t>(s)];
    for (uint32_t a = made.epsilon_begin; a < made.end; ++a) composition.Reach(a);
  }
  const GraphState state = composition.states()[30];
  const std::vector<GraphArc> arcs(composition.arcs().begin() + state.epsilon_begin,
                                   composition.arcs().begin() + state.end);
  const size_t before = composition.states().size();
  composition.BeginCollection();
  const int32_t kept = composition.KeepState(30);
  EXPECT_EQ(composition.KeepState(30), kept);
  const uint32_t arc = composition.KeepArc(state.epsilon_begin);
  composition.EndCollection();
  EXPECT_LT(composition.states().size(), before);
  EXPECT_EQ(composition.arcs()[arc].word, arcs[0].word);
  composition.Expand(kept);
  const GraphState again = composition.states()[static_cast<size_t>(kept)];
  ASSERT_EQ(again.end - again.epsilon_begin, arcs.size());
  for (size_t a = 0; a < arcs.size(); ++a) {
    const GraphArc& found = composition.arcs()[again.epsilon_begin + a];
    EXPECT_EQ(found.transition_id, arcs[a].transition_id);
    EXPECT_EQ(found.word, arcs[a].word);
    EXPECT_EQ(found.cost, arcs[a].cost);
  }
}

// An added word is said where the model backs off to the end, at its own cost.
TEST(Composition, SaysWordsThatWereAddedToTheLanguageModel) {
  const hmm::Lexicon lexicon = hmm::Lexicon::Parse("A P0\nB P1\nNEW P0 P1\n", "lexicon.txt", [] {
    hmm::LexiconOptions options;
    options.silence_phones = {"SIL"};
    return options;
  }());
  const hmm::HmmModel model = ToyModel(lexicon, 2);
  fst::StdVectorFst grammar;
  const auto lookup = [&](std::string_view w) { return lexicon.FindWord(w); };
  NgramToFst(EstimateNgram({{"A", "B"}, {"B", "A"}, {"A"}}, {}, {2, "witten-bell", 1}), lookup, lexicon.backoff_word(),
             &grammar);
  WordAutomaton words = WordAutomaton::FromFst(grammar, lexicon.backoff_word(), 1000);
  const int32_t added = lexicon.FindWord("NEW");
  EXPECT_FALSE(words.SaidWords(3)[static_cast<size_t>(added)]);
  words.AddWords({{added, 3.0F}, {lexicon.FindWord("A"), 0.0F}});
  EXPECT_EQ(words.added().size(), 1U);
  const auto base = words.base_state();
  grammar.AddArc(base, {added, added, 3.0F, base});
  fst::StdVectorFst fst;
  BuildGraphFst(model, lexicon, grammar, {}, &fst);
  const Graph composed = GraphFromParts(
      std::make_shared<const GraphParts>(BuildLexiconGraph(model, lexicon, {}), std::move(words)), model, lexicon);
  EXPECT_TRUE(composed.SaidWords()[static_cast<size_t>(added)]);
  const std::map<int32_t, float> usual = UsualCosts(composed, {added});
  EXPECT_GT(usual.at(added), 2.9F);
  const Graph whole = GraphFromFst(fst, model, lexicon);
  const Matrix scores = RandomToyScores(9, 6, whole.num_pdfs());
  const auto expected = Sentences(whole, scores);
  EXPECT_TRUE(std::any_of(expected.begin(), expected.end(), [&](const auto& sentence) {
    return std::count(sentence.first.begin(), sentence.first.end(), added) > 0;
  }));
  ExpectSamePaths(Sentences(composed, scores), expected, kTolerance);
}

TEST(Composition, IsConstrainedToWordsAsAStaticGraphIs) {
  Rng rng(11);
  const hmm::Lexicon lexicon = RandomLexicon(rng, false);
  const hmm::HmmModel model = ToyModel(lexicon, 2);
  const Both graphs = BuildBoth(model, lexicon, RandomNgrams(lexicon, 2, rng));
  const Matrix scores = RandomToyScores(3, 6, graphs.whole.num_pdfs());
  const Words words = {1, 2};
  const auto whole = ConstrainToWords(graphs.whole, words), composed = ConstrainToWords(graphs.composed, words);
  ASSERT_TRUE(whole && composed);
  const auto expected = Sentences(*whole, scores);
  ASSERT_EQ(expected.size(), 1U);
  ExpectSamePaths(Sentences(*composed, scores), expected, kTolerance);
}

class SavedParts : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("antiphon_parts_test_" + std::to_string(::getpid()));
    Rng rng(3);
    pronunciations_ = RandomPronunciations(lexicon_, rng);
    parts_ = std::make_shared<const GraphParts>(
        BuildLexiconGraph(model_, lexicon_, {}, &pronunciations_),
        WordAutomaton::FromFst(RandomNgrams(lexicon_, 2, rng), lexicon_.backoff_word(), 1000));
    SaveParts(*parts_, model_, lexicon_, &pronunciations_, "test", {}, folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string ErrorOfLoad() {
    try {
      Graph::Load(folder_, model_);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }
  static hmm::Lexicon MakeLexicon() {
    Rng rng(8);
    return RandomLexicon(rng, false);
  }

  std::filesystem::path folder_;
  hmm::Lexicon lexicon_ = MakeLexicon();
  hmm::HmmModel model_ = ToyModel(lexicon_, 2);
  hmm::PronunciationModel pronunciations_;
  std::shared_ptr<const GraphParts> parts_;
};

TEST_F(SavedParts, ComeBackTheSame) {
  const Graph loaded = Graph::Load(folder_, model_);
  ASSERT_NE(loaded.parts(), nullptr);
  EXPECT_EQ(loaded.info().language_model, "test");
  const Graph made = GraphFromParts(parts_, model_, lexicon_);
  const Matrix scores = RandomToyScores(2, 6, model_.num_pdfs());
  const auto expected = Sentences(GraphFromParts(parts_, model_, lexicon_), RandomToyScores(2, 6, made.num_pdfs()));
  EXPECT_EQ(loaded.words(), made.words());
  EXPECT_EQ(loaded.parts()->lexicon().arcs().size(), made.parts()->lexicon().arcs().size());
  EXPECT_EQ(loaded.parts()->words().num_arcs(), made.parts()->words().num_arcs());
  EXPECT_FALSE(Sentences(loaded, scores).empty());
  const auto pronunciations = LoadPronunciationModel(folder_);
  ASSERT_TRUE(pronunciations);
  ASSERT_EQ(pronunciations->entries.size(), lexicon_.entries().size());
  EXPECT_NEAR(pronunciations->entries[1].pause_after, pronunciations_.entries[1].pause_after, 1e-6);
  EXPECT_EQ(pronunciations->pause_at_start, pronunciations_.pause_at_start);
}

TEST_F(SavedParts, AreRefusedByNameWhenDamaged) {
  for (const char* name : {"HCL.fst", "G.safetensors", "pronunciations.safetensors"}) {
    const std::string whole = ReadFile(folder_ / name);
    std::string changed = whole;
    changed[changed.size() - 5] ^= 1;
    for (const std::string& bytes : {whole.substr(0, whole.size() / 2), changed}) {
      WriteFileAtomically(folder_ / name, bytes);
      EXPECT_THAT(ErrorOfLoad(), ::testing::AllOf(HasSubstr(name), HasSubstr("cut short or changed")));
    }
    WriteFileAtomically(folder_ / name, whole);
    EXPECT_EQ(ErrorOfLoad(), "");
  }
  std::string json = ReadFile(folder_ / "graph.json");
  json.replace(json.find("\"format\": 2"), 11, "\"format\": 3");
  WriteFileAtomically(folder_ / "graph.json", json);
  EXPECT_THAT(ErrorOfLoad(), HasSubstr("format 1 or 2 was expected, 3 found"));
}

// Whoever changes a file may give it a checksum, too: nothing in it may be relied on.
TEST_F(SavedParts, WithAnyTransducerAreRefusedOrDecode) {
  const std::string fst = ReadFile(folder_ / "HCL.fst"), json = ReadFile(folder_ / "graph.json");
  const std::string sum = fmt::format("{:016x}", Checksum(fst));
  ASSERT_THAT(json, HasSubstr(sum));
  const Matrix scores = RandomToyScores(2, 12, model_.num_pdfs());
  int refused = 0, decoded = 0;
  for (uint64_t seed = 1; seed <= 250; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    std::string changed = fst;
    const size_t at = 80 + static_cast<size_t>(rng.Below(fst.size() - 84));
    const int32_t values[] = {0, 1, 2, -1, 7, 1 << 30, 0x7fc00000, 0x7f800000};
    const int32_t value = values[rng.Below(8)];
    if (seed % 4 == 0) {
      changed[at] ^= static_cast<char>(1 << rng.Below(8));
    } else {
      std::memcpy(changed.data() + at / 4 * 4, &value, sizeof value);
    }
    std::string described = json;
    described.replace(described.find(sum), sum.size(), fmt::format("{:016x}", Checksum(changed)));
    WriteFileAtomically(folder_ / "HCL.fst", changed);
    WriteFileAtomically(folder_ / "graph.json", described);
    try {
      const Graph graph = Graph::Load(folder_, model_);
      MatrixScores source(scores);
      Decoder decoder(graph, {.acoustic_scale = 0.1});
      decoder.Advance(source);
      decoder.Finish();
      decoder.RawLattice();
      ++decoded;
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 60);
  EXPECT_GT(decoded, 15);
}

}  // namespace
}  // namespace antiphon::decode
