#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "decode/graph/determinize_star.h"
#include "decode/graph/graph_builder.h"
#include "decode/graph/graph_operations.h"
#include "decode/lm/ngram_estimate.h"
#include "decode/lm/ngram_fst.h"
#include "decode/search/decoder.h"
#include "decode/search/matrix_scores.h"
#include "decode/toy_model.h"
#include "hmm/graph/openfst.h"
#include "mutated_fst.h"

namespace antiphon::decode {
namespace {

using ::testing::HasSubstr;

fst::StdVectorFst ToyGrammar(const hmm::Lexicon& lexicon, int order) {
  const NgramModel lm =
      EstimateNgram({{"A", "SEE"}, {"AT", "SEA"}, {"ATE"}, {"SEE", "A", "SEA"}, {"A"}}, {}, {order, "witten-bell", 1});
  fst::StdVectorFst grammar;
  NgramToFst(
      lm, [&](std::string_view w) { return lexicon.FindWord(w) > 0 ? lexicon.FindWord(w) : -1; },
      lexicon.backoff_word(), &grammar);
  return grammar;
}

using WordIds = std::vector<int32_t>;
using Phones = std::vector<int32_t>;
using Costs = std::map<std::pair<WordIds, Phones>, double>;

void Offer(Costs& costs, const WordIds& words, const Phones& phones, double cost) {
  const auto [it, added] = costs.emplace(std::pair(words, phones), cost);
  if (!added) it->second = std::min(it->second, cost);
}

// By the definitions: sentence cost from the grammar, pauses and pronunciations from the lexicon, states from the
// model.
Costs ByDefinition(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, const fst::StdVectorFst& grammar,
                   double self_loop_scale, size_t max_phones) {
  Costs costs;
  const double p = lexicon.options().silence_probability;
  const auto state_cost = [&](const Phones& phones) {
    double cost = 0.0;
    for (size_t i = 0; i < phones.size(); ++i) {
      const int32_t window[] = {i > 0 ? phones[i - 1] : 0, phones[i], i + 1 < phones.size() ? phones[i + 1] : 0};
      const auto& entry = model.topology().Entry(phones[i]);
      for (size_t s = 0; s + 1 < entry.size(); ++s) {
        const int32_t state = model.TransitionState(model.Window(window), static_cast<int>(s));
        cost -= self_loop_scale * model.transitions().LeaveLogProb(state);
      }
    }
    return cost;
  };
  // state of the grammar, words and phones so far, cost; a pause may follow.
  const std::function<void(int, WordIds, Phones, double)> walk = [&](int state, WordIds words, Phones phones,
                                                                     double cost) {
    if (phones.size() > max_phones) return;
    if (grammar.Final(state) != fst::TropicalWeight::Zero()) {
      Offer(costs, words, phones, cost + grammar.Final(state).Value() + state_cost(phones));
    }
    for (fst::ArcIterator<fst::StdVectorFst> it(grammar, state); !it.Done(); it.Next()) {
      const auto& arc = it.Value();
      const double next = cost + arc.weight.Value();
      if (arc.ilabel == lexicon.backoff_word()) {
        walk(arc.nextstate, words, phones, next);
        continue;
      }
      WordIds more_words = words;
      more_words.push_back(arc.olabel);
      for (const auto& pronunciation : lexicon.PronunciationsOf(arc.ilabel)) {
        Phones more = phones;
        more.insert(more.end(), pronunciation.phones.begin(), pronunciation.phones.end());
        walk(arc.nextstate, more_words, more, next + pronunciation.cost - std::log(1 - p));
        more.push_back(lexicon.optional_silence());
        walk(arc.nextstate, more_words, more, next + pronunciation.cost - std::log(p));
      }
    }
  };
  walk(grammar.Start(), {}, {}, -std::log(1 - p));
  walk(grammar.Start(), {}, {lexicon.optional_silence()}, -std::log(p));
  return costs;
}

// By walking through the graph, without self-loops.
Costs ByGraph(const hmm::HmmModel& model, const fst::StdVectorFst& graph, size_t max_phones) {
  Costs costs;
  const auto& transitions = model.transitions();
  const std::function<void(int, WordIds, Phones, std::vector<int32_t>, double)> walk =
      [&](int state, WordIds words, Phones phones, std::vector<int32_t> ids, double cost) {
        if (phones.size() > max_phones) return;
        if (graph.Final(state) != fst::TropicalWeight::Zero()) {
          // The states are those of the phones in context.
          size_t at = 0;
          for (size_t i = 0; i < phones.size(); ++i) {
            const int32_t window[] = {i > 0 ? phones[i - 1] : 0, phones[i], i + 1 < phones.size() ? phones[i + 1] : 0};
            for (int s = 0; s + 1 < static_cast<int>(model.topology().Entry(phones[i]).size()); ++s) {
              EXPECT_EQ(transitions.TransitionState(ids[at++]), model.TransitionState(model.Window(window), s));
            }
          }
          Offer(costs, words, phones, cost + graph.Final(state).Value());
        }
        for (fst::ArcIterator<fst::StdVectorFst> it(graph, state); !it.Done(); it.Next()) {
          const auto& arc = it.Value();
          if (arc.ilabel != 0 && transitions.IsSelfLoop(arc.ilabel)) continue;
          WordIds more_words = words;
          if (arc.olabel != 0) more_words.push_back(arc.olabel);
          Phones more = phones;
          auto more_ids = ids;
          if (arc.ilabel != 0) more_ids.push_back(arc.ilabel);
          if (arc.ilabel != 0 && transitions.IsFinal(arc.ilabel)) more.push_back(transitions.Phone(arc.ilabel));
          walk(arc.nextstate, more_words, more, more_ids, cost + arc.weight.Value());
        }
      };
  walk(graph.Start(), {}, {}, {}, 0.0);
  return costs;
}

class ToyGraph : public ::testing::TestWithParam<std::tuple<int, int, bool>> {};
INSTANTIATE_TEST_SUITE_P(WidthOrderPosition, ToyGraph,
                         ::testing::Combine(::testing::Values(1, 2, 3), ::testing::Values(1, 2), ::testing::Bool()));

TEST_P(ToyGraph, AcceptsExactlyWhatTheDefinitionsSay) {
  const auto [width, order, position_dependent] = GetParam();
  const hmm::Lexicon lexicon = ToyLexicon(position_dependent);
  const hmm::HmmModel model = ToyModel(lexicon, width);
  const fst::StdVectorFst grammar = ToyGrammar(lexicon, order);
  fst::StdVectorFst graph;
  GraphBuildOptions options;
  BuildGraphFst(model, lexicon, grammar, options, &graph);
  constexpr size_t kMaxPhones = 5;
  // Without a word about it, the weight of self-loops is that of the kind of model.
  const Costs expected = ByDefinition(model, lexicon, grammar, width == 2 ? 1.0 : 0.1, kMaxPhones);
  const Costs found = ByGraph(model, graph, kMaxPhones);
  ASSERT_GT(expected.size(), 100U);
  ASSERT_EQ(found.size(), expected.size());
  for (auto x = expected.begin(), y = found.begin(); x != expected.end(); ++x, ++y) {
    ASSERT_EQ(x->first, y->first);
    // Costs are rounded to a thousandth per arc.
    ASSERT_NEAR(x->second, y->second, 0.02);
  }
}

TEST(GraphBuilder, LeavesNoProbabilityOut) {
  hmm::LexiconOptions options;
  options.silence_phones = {"SIL"};
  const hmm::Lexicon lexicon = hmm::Lexicon::Parse("AT AH T\nATE AH T S\nSEE S IY\n", "lexicon.txt", options);
  const hmm::HmmModel model = ToyModel(lexicon, 3);
  fst::StdVectorFst grammar, graph;
  WordLoopFst(
      {"AT", "ATE", "SEE"}, [&](std::string_view w) { return lexicon.FindWord(w); }, &grammar);
  GraphBuildOptions build;
  build.self_loop_scale = 1.0;
  BuildGraphFst(model, lexicon, grammar, build, &graph);
  EXPECT_LT(LargestStochasticityError(graph), 0.01);
}

TEST(DeterminizeStar, RefusesWhatHasTwoOutputsForOneInput) {
  fst::StdVectorFst in, out;
  for (int i = 0; i < 2; ++i) in.AddState();
  in.SetStart(0);
  in.SetFinal(1, 0.0F);
  in.AddArc(0, {1, 1, 0.0F, 1});
  in.AddArc(0, {1, 2, 0.0F, 1});
  EXPECT_THROW(DeterminizeStar(in, 1000, &out), InputError);
}

// Twins with different loop weights: determinisation never ends.
TEST(DeterminizeStar, GivesUpAtTheLimit) {
  fst::StdVectorFst in, out;
  for (int i = 0; i < 3; ++i) in.AddState();
  in.SetStart(0);
  in.SetFinal(1, 0.0F);
  in.SetFinal(2, 0.0F);
  for (const int state : {1, 2}) {
    in.AddArc(0, {1, 0, 0.0F, state});
    in.AddArc(state, {2, 0, state == 1 ? 0.5F : 1.0F, state});
  }
  EXPECT_THROW(DeterminizeStar(in, 20, &out), InputError);
}

TEST(DeterminizeStar, AddsProbabilitiesAndRemovesEpsilons) {
  fst::StdVectorFst in, out;
  for (int i = 0; i < 4; ++i) in.AddState();
  in.SetStart(0);
  in.SetFinal(3, 0.0F);
  const auto half = static_cast<float>(std::log(2.0));
  in.AddArc(0, {0, 0, half, 1});
  in.AddArc(0, {0, 0, half, 2});
  in.AddArc(1, {1, 7, 0.0F, 3});
  in.AddArc(2, {1, 7, 0.0F, 3});
  DeterminizeStar(in, 1000, &out);
  EXPECT_EQ(out.NumStates(), 2);
  ASSERT_EQ(out.NumArcs(out.Start()), 1U);
  fst::ArcIterator<fst::StdVectorFst> arc(out, out.Start());
  EXPECT_EQ(arc.Value().ilabel, 1);
  EXPECT_EQ(arc.Value().olabel, 7);
  EXPECT_NEAR(arc.Value().weight.Value(), 0.0, 1e-6);
}

TEST(MergeEqualStates, SharesSuffixes) {
  fst::StdVectorFst fst;
  for (int i = 0; i < 7; ++i) fst.AddState();
  fst.SetStart(0);
  for (const int chain : {1, 4}) {
    fst.AddArc(0, {chain, 0, 0.0F, chain});
    fst.AddArc(chain, {8, 0, 0.25F, chain + 1});
    fst.AddArc(chain + 1, {9, 0, 0.5F, chain + 2});
    fst.SetFinal(chain + 2, 1.0F);
  }
  MergeEqualStates(&fst);
  EXPECT_EQ(fst.NumStates(), 4);
}

class SavedGraph : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("antiphon_graph_test_" + std::to_string(::getpid()));
    BuildGraphFst(model_, lexicon_, ToyGrammar(lexicon_, 2), {}, &fst_);
    SaveGraph(fst_, model_, lexicon_, "test", {}, folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string ErrorOfLoad(const hmm::HmmModel& model) {
    try {
      Graph::Load(folder_, model);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }

  std::filesystem::path folder_;
  hmm::Lexicon lexicon_ = ToyLexicon();
  hmm::HmmModel model_ = ToyModel(lexicon_, 3);
  fst::StdVectorFst fst_;
};

TEST_F(SavedGraph, ComesBackTheSame) {
  const Graph loaded = Graph::Load(folder_, model_);
  const Graph made = GraphFromFst(fst_, model_, lexicon_);
  EXPECT_EQ(loaded.start(), made.start());
  EXPECT_EQ(loaded.words(), made.words());
  EXPECT_EQ(loaded.pdf_of_transition().size(), made.pdf_of_transition().size());
  ASSERT_EQ(loaded.states().size(), made.states().size());
  ASSERT_EQ(loaded.arcs().size(), made.arcs().size());
  for (size_t a = 0; a < made.arcs().size(); ++a) {
    EXPECT_EQ(std::memcmp(&loaded.arcs()[a], &made.arcs()[a], sizeof(GraphArc)), 0);
  }
  for (size_t s = 0; s < made.states().size(); ++s) {
    EXPECT_EQ(loaded.states()[s].emitting_begin, made.states()[s].emitting_begin);
    EXPECT_EQ(loaded.states()[s].final_cost, made.states()[s].final_cost);
  }
  EXPECT_EQ(loaded.lexicon()->num_words(), lexicon_.num_words());
  EXPECT_EQ(loaded.info().language_model, "test");
}

// Whoever changes a file may give it a checksum, too: nothing in it may be relied on.
TEST_F(SavedGraph, MutatedAnyhowIsRefusedOrDecodes) {
  const std::string fst = ReadFile(folder_ / "HCLG.fst"), json = ReadFile(folder_ / "graph.json");
  const std::string sum = fmt::format("{:016x}", Checksum(fst));
  ASSERT_THAT(json, HasSubstr(sum));
  Matrix scores(12, model_.num_pdfs());
  Rng score_rng(3);
  for (int64_t i = 0; i < scores.size(); ++i) scores.data()[i] = static_cast<float>(score_rng.Normal() * 3);
  int refused = 0, decoded = 0;
  for (uint64_t seed = 1; seed <= 250; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const std::string changed = testing::MutatedFst(fst, rng);
    std::string described = json;
    described.replace(described.find(sum), sum.size(), fmt::format("{:016x}", Checksum(changed)));
    std::ofstream(folder_ / "HCLG.fst", std::ios::binary) << changed;
    std::ofstream(folder_ / "graph.json", std::ios::binary) << described;
    try {
      const Graph graph = Graph::Load(folder_, model_);
      MatrixScores source(scores);
      Decoder decoder(graph, {.acoustic_scale = 0.1});
      decoder.Advance(source);
      decoder.Finish();
      decoder.BestPath();
      decoder.RawLattice();
      ++decoded;
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 80);
  EXPECT_GT(decoded, 15);
}

// Whose arcs all lead to states that are there, with labels that are known: a search would never end.
TEST_F(SavedGraph, WithACycleThatTakesNoFrameIsRefused) {
  fst::StdVectorFst fst = fst_;
  const int a = fst.AddState(), b = fst.AddState();
  fst.AddArc(a, {0, 0, 0.5F, b});
  fst.AddArc(b, {0, 0, -1.0F, a});
  SaveGraph(fst, model_, lexicon_, "test", {}, folder_);
  EXPECT_THAT(ErrorOfLoad(model_), ::testing::AllOf(HasSubstr("HCLG.fst"), HasSubstr("takes no frame")));
}

TEST_F(SavedGraph, IsRefusedByAnotherModel) {
  EXPECT_THAT(ErrorOfLoad(ToyModel(lexicon_, 1)), HasSubstr("was built for another model"));
}

TEST_F(SavedGraph, IsRefusedWhenDamaged) {
  const std::string fst = ReadFile(folder_ / "HCLG.fst"), json = ReadFile(folder_ / "graph.json");
  WriteFileAtomically(folder_ / "HCLG.fst", std::string_view(fst).substr(0, fst.size() / 2));
  EXPECT_THAT(ErrorOfLoad(model_), HasSubstr("cut short or changed"));
  WriteFileAtomically(folder_ / "HCLG.fst", fst);
  WriteFileAtomically(folder_ / "words.txt", std::string_view("<eps> 0\n"));
  EXPECT_THAT(ErrorOfLoad(model_), HasSubstr("words.txt"));
  WriteFileAtomically(folder_ / "graph.json", std::string_view("{}"));
  EXPECT_THAT(ErrorOfLoad(model_), HasSubstr("graph.json"));
  std::filesystem::remove(folder_ / "graph.json");
  EXPECT_THROW(Graph::Load(folder_, model_), IoError);
}

}  // namespace
}  // namespace antiphon::decode
