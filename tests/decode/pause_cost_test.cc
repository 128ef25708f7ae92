// Pauses cost the same in both kinds of graphs, also where the lexicon has a word that sounds like one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "decode/graph/graph_builder.h"
#include "decode/graph/graph_walk.h"
#include "decode/graph/parts_builder.h"
#include "decode/toy_model.h"
#include "hmm/graph/openfst.h"

namespace antiphon::decode {
namespace {

constexpr const char* kPausedWords = "AB P0 P1\nBA P1 P0 P0\n";
constexpr const char* kPauseAsWord = "<SIL> SIL\n";
// Costs are rounded to a thousandth per arc when graphs are built.
constexpr double kPauseTolerance = 0.03;

hmm::Lexicon PausedLexiconOf(const std::string& text, double silence_probability) {
  hmm::LexiconOptions options;
  options.silence_phones = {"SIL"};
  options.silence_probability = silence_probability;
  return hmm::Lexicon::Parse(text, "lexicon.txt", options);
}

// Any words of `said`, each at a cost of its own.
fst::StdVectorFst LoopOver(const hmm::Lexicon& lexicon, const std::vector<std::string>& said) {
  fst::StdVectorFst grammar;
  grammar.SetStart(grammar.AddState());
  grammar.SetFinal(0, 1.0F);
  float cost = 1.0F;
  for (const std::string& name : said) {
    const int32_t word = lexicon.FindWord(name);
    grammar.AddArc(0, {word, word, cost += 0.25F, 0});
  }
  return grammar;
}

struct SpokenFrames {
  std::vector<int32_t> pdfs;         // two frames of each phone
  std::vector<size_t> pause_begins;  // first frames of pauses
};

// Words, and "_" for a pause.
SpokenFrames FramesOf(const std::string& sentence, const hmm::Lexicon& lexicon, const hmm::HmmModel& model) {
  SpokenFrames frames;
  int32_t left = 0;
  std::istringstream stream(sentence);
  for (std::string word; stream >> word;) {
    std::vector<int32_t> phones = {lexicon.optional_silence()};
    if (word == "_") {
      frames.pause_begins.push_back(frames.pdfs.size());
    } else {
      phones = lexicon.PronunciationsOf(lexicon.FindWord(word))[0].phones;
    }
    for (const int32_t phone : phones) {
      std::vector<int32_t> window = {left, phone};
      if (model.context_width() == 1) window = {phone};
      for (int c = 0; c < model.topology().NumPdfClasses(phone); ++c) {
        frames.pdfs.push_back(model.tree().Pdf(window, c));
      }
      left = phone;
    }
  }
  return frames;
}

using CostsByState = std::map<int32_t, double>;

// True if it is the cheapest way to the state so far.
bool Improve(CostsByState& costs, int32_t state, double cost) {
  const auto [known, is_new] = costs.emplace(state, cost);
  if (is_new || cost >= known->second) return is_new;
  known->second = cost;
  return true;
}

// Goes on along arcs without input.
void FollowEpsilons(GraphWalk& walk, CostsByState& costs) {
  std::vector<int32_t> open;
  for (const auto& [state, cost] : costs) open.push_back(state);
  while (!open.empty()) {
    const int32_t state = open.back();
    open.pop_back();
    const double cost = costs.at(state);
    const GraphState expanded = walk.Expanded(state);
    for (uint32_t a = expanded.epsilon_begin; a < expanded.emitting_begin; ++a) {
      const double arc_cost = static_cast<double>(walk.arcs()[a].cost);
      if (const int32_t next = walk.Next(a); Improve(costs, next, cost + arc_cost)) open.push_back(next);
    }
  }
}

struct PathCosts {
  std::vector<double> after;  // each frame: of the cheapest way there
  double sentence = std::numeric_limits<double>::infinity();
};

// What a graph takes for frames that are of these pdfs and no others; what frames cost is not counted.
PathCosts CostsInGraph(const Graph& graph, std::span<const int32_t> pdfs) {
  GraphWalk walk(graph);
  PathCosts costs;
  CostsByState here = {{walk.start(), 0.0}};
  for (const int32_t pdf : pdfs) {
    FollowEpsilons(walk, here);
    CostsByState there;
    double least = std::numeric_limits<double>::infinity();
    for (const auto& [state, cost] : here) {
      const GraphState expanded = walk.Expanded(state);
      for (uint32_t a = expanded.emitting_begin; a < expanded.end; ++a) {
        const GraphArc arc = walk.arcs()[a];
        if (graph.pdf_of_transition()[static_cast<size_t>(arc.transition_id)] != pdf) continue;
        const double sum = cost + static_cast<double>(arc.cost);
        Improve(there, walk.Next(a), sum);
        least = std::min(least, sum);
      }
    }
    costs.after.push_back(least);
    here = std::move(there);
  }
  FollowEpsilons(walk, here);
  for (const auto& [state, cost] : here) {
    costs.sentence = std::min(costs.sentence, cost + static_cast<double>(walk.states()[state].final_cost));
  }
  return costs;
}

struct KindsOfGraph {
  Graph whole, composed;
};

KindsOfGraph BuildKinds(const hmm::HmmModel& model, const hmm::Lexicon& lexicon, const fst::StdVectorFst& grammar) {
  const GraphBuildOptions options = {.max_states = 20000};
  fst::StdVectorFst fst;
  BuildGraphFst(model, lexicon, grammar, options, &fst);
  return {GraphFromFst(fst, model, lexicon),
          GraphFromParts(BuildGraphParts(model, lexicon, grammar, options), model, lexicon)};
}

const std::vector<std::string> kPausedSentences = {"AB",          "AB BA",           "_ AB",   "AB _",
                                                   "_ AB _ BA _", "BA _ AB AB _ AB", "_ BA BA"};

class PauseCosts : public ::testing::TestWithParam<std::tuple<int, double>> {
 protected:
  // Compares the graphs' costs of all sentences, at the end and, if the grammar has no word that sounds like a pause,
  // when a pause has begun: then, too, a beam compares hypotheses. Returns those of the graphs on the fly.
  std::map<std::string, double> Compare(const std::string& text, const std::vector<std::string>& said) {
    const auto [width, silence_probability] = GetParam();
    const hmm::Lexicon lexicon = PausedLexiconOf(text, silence_probability);
    const hmm::HmmModel model = ToyModel(lexicon, width);
    const KindsOfGraph graphs = BuildKinds(model, lexicon, LoopOver(lexicon, said));
    std::map<std::string, double> composed;
    for (const std::string& sentence : kPausedSentences) {
      SCOPED_TRACE(sentence);
      const SpokenFrames frames = FramesOf(sentence, lexicon, model);
      const PathCosts expected = CostsInGraph(graphs.whole, frames.pdfs);
      const PathCosts found = CostsInGraph(graphs.composed, frames.pdfs);
      EXPECT_TRUE(std::isfinite(expected.sentence));
      EXPECT_NEAR(found.sentence, expected.sentence, kPauseTolerance);
      composed[sentence] = found.sentence;
      if (std::ranges::find(said, "<SIL>") != said.end()) continue;
      for (const size_t frame : frames.pause_begins) {
        EXPECT_NEAR(found.after[frame], expected.after[frame], kPauseTolerance) << "frame " << frame;
      }
    }
    return composed;
  }
};
INSTANTIATE_TEST_SUITE_P(WidthSilence, PauseCosts,
                         ::testing::Combine(::testing::Values(1, 2), ::testing::Values(0.5, 0.2)));

TEST_P(PauseCosts, AreThoseOfTheStaticGraph) { Compare(kPausedWords, {"AB", "BA"}); }

// The language model never says it: it must not matter.
TEST_P(PauseCosts, DoNotChangeWithAWordThatSoundsLikeAPause) {
  const auto without = Compare(kPausedWords, {"AB", "BA"});
  const auto with = Compare(std::string(kPausedWords) + kPauseAsWord, {"AB", "BA"});
  for (const auto& [sentence, cost] : without) EXPECT_NEAR(with.at(sentence), cost, kPauseTolerance) << sentence;
}

// A pause is then also that word, where it is the cheaper of the two.
TEST_P(PauseCosts, AreThoseOfTheStaticGraphWhereThatWordIsSaid) {
  Compare(std::string(kPausedWords) + kPauseAsWord, {"AB", "BA", "<SIL>"});
}

// Several words that begin as a pause does, of which a static graph knows that none can be said.
TEST_P(PauseCosts, DoNotChangeWithSeveralSuchWords) {
  Compare(std::string(kPausedWords) + kPauseAsWord + "<BREATH> SIL\n<UH> SIL P0\n", {"AB", "BA"});
}

}  // namespace
}  // namespace antiphon::decode
