#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/random.h"
#include "hmm/graph/context_fst.h"
#include "hmm/graph/hmm_fst.h"
#include "hmm/graph/lexicon_fst.h"
#include "hmm/graph/openfst.h"

namespace antiphon::hmm {
namespace {

using fst::StdArc;
using fst::StdVectorFst;
using Sequence = std::vector<int32_t>;
// (input labels, output labels) → lowest cost.
using Paths = std::map<std::pair<Sequence, Sequence>, float>;

// Homophones (TO, TOO), one word that begins another (TO, TOOL), variants of one word.
constexpr std::string_view kToyLexicon = "TO T UW\nTOO T UW\nTOOL T UW L\nA AH\nA EY\n";

Paths EnumeratePaths(const StdVectorFst& fst, size_t max_input, const std::set<int32_t>& silent_inputs) {
  Paths paths;
  std::function<void(int, Sequence, Sequence, float, int)> walk = [&](int state, Sequence in, Sequence out, float cost,
                                                                      int idle) {
    if (in.size() > max_input || idle > 6) return;
    if (fst.Final(state) != StdArc::Weight::Zero()) {
      const float total = cost + fst.Final(state).Value();
      const auto [it, added] = paths.emplace(std::pair(in, out), total);
      if (!added) it->second = std::min(it->second, total);
    }
    for (fst::ArcIterator<StdVectorFst> it(fst, state); !it.Done(); it.Next()) {
      const StdArc& arc = it.Value();
      Sequence next_in = in;
      Sequence next_out = out;
      const bool silent = arc.ilabel == 0 || silent_inputs.contains(arc.ilabel);
      if (!silent) next_in.push_back(arc.ilabel);
      if (arc.olabel != 0) next_out.push_back(arc.olabel);
      walk(arc.nextstate, next_in, next_out, cost + arc.weight.Value(), silent ? idle + 1 : 0);
    }
  };
  if (fst.Start() != fst::kNoStateId) walk(fst.Start(), {}, {}, 0, 0);
  return paths;
}

// Every way to say the word sequence, by hand: optional pause before, between and after.
Paths SayWords(const Lexicon& lexicon, const std::vector<Sequence>& sentences, size_t max_phones) {
  const float pause = static_cast<float>(-std::log(lexicon.options().silence_probability));
  const float no_pause = static_cast<float>(-std::log(1 - lexicon.options().silence_probability));
  Paths paths;
  for (const Sequence& words : sentences) {
    std::function<void(size_t, Sequence, float)> say = [&](size_t at, const Sequence& phones, float cost) {
      for (const bool silent : {false, true}) {
        Sequence spoken = phones;
        if (silent) spoken.push_back(lexicon.optional_silence());
        const float sum = cost + (silent ? pause : no_pause);
        if (spoken.size() > max_phones) continue;
        if (at == words.size()) {
          const auto [it, added] = paths.emplace(std::pair(spoken, words), sum);
          if (!added) it->second = std::min(it->second, sum);
          continue;
        }
        for (const Pronunciation& entry : lexicon.PronunciationsOf(words[at])) {
          Sequence longer = spoken;
          longer.insert(longer.end(), entry.phones.begin(), entry.phones.end());
          say(at + 1, longer, sum + entry.cost);
        }
      }
    };
    say(0, {}, 0);
  }
  return paths;
}

void ExpectSamePaths(const Paths& got, const Paths& want) {
  ASSERT_EQ(got.size(), want.size());
  auto it = got.begin();
  for (const auto& [key, cost] : want) {
    EXPECT_EQ(it->first, key);
    EXPECT_NEAR(it->second, cost, 1e-4);
    ++it;
  }
}

std::vector<Sequence> Sentences(const Lexicon& lexicon, int max_words) {
  std::vector<Sequence> sentences = {{}};
  for (size_t i = 0; i < sentences.size(); ++i) {
    if (static_cast<int>(sentences[i].size()) == max_words) continue;
    for (int32_t w = 1; w <= lexicon.num_words(); ++w) {
      Sequence longer = sentences[i];
      longer.push_back(w);
      sentences.push_back(longer);
    }
  }
  return sentences;
}

// Any sentence of at most two words, with a back-off arc in the middle that must not change what is accepted.
StdVectorFst ToyGrammar(const Lexicon& lexicon, bool with_backoff) {
  StdVectorFst g;
  for (int s = 0; s < 4; ++s) g.AddState();
  g.SetStart(0);
  for (const int s : {0, 1, 2}) g.SetFinal(s, 0);
  for (int32_t w = 1; w <= lexicon.num_words(); ++w) {
    g.AddArc(0, StdArc(w, w, 0, 1));
    g.AddArc(with_backoff ? 3 : 1, StdArc(w, w, 0, 2));
  }
  if (with_backoff) g.AddArc(1, StdArc(lexicon.backoff_word(), 0, 0, 3));
  fst::ArcSort(&g, fst::ILabelCompare<StdArc>());
  return g;
}

TEST(LexiconFst, AcceptsWhatTheLexiconSaysAndNothingElse) {
  const Lexicon lexicon = Lexicon::Parse(kToyLexicon, "toy");
  StdVectorFst l;
  EXPECT_TRUE(BuildLexiconFst(lexicon, false, &l).empty());
  ExpectSamePaths(EnumeratePaths(l, 5, {}), SayWords(lexicon, Sentences(lexicon, 5), 5));
}

TEST(LexiconFst, DisambiguationMakesItDeterminisableAndChangesNothing) {
  const Lexicon lexicon = Lexicon::Parse(kToyLexicon, "toy");
  StdVectorFst l;
  const Sequence disambiguation = BuildLexiconFst(lexicon, true, &l);
  StdVectorFst lg;
  StdVectorFst determinised;
  fst::Compose(l, ToyGrammar(lexicon, true), &lg);
  fst::Determinize(lg, &determinised);
  ExpectSamePaths(EnumeratePaths(determinised, 9, {disambiguation.begin(), disambiguation.end()}),
                  SayWords(lexicon, Sentences(lexicon, 2), 9));
}

TEST(LexiconFst, HomophonesAndPrefixesGetDifferentSymbols) {
  const Lexicon lexicon = Lexicon::Parse(kToyLexicon, "toy");
  EXPECT_EQ(AssignDisambiguation(lexicon), (std::vector<int>{1, 2, 0, 0, 0}));
}

TEST(ContextFst, GivesEachPhoneItsNeighbours) {
  StdVectorFst phones;
  for (int s = 0; s < 4; ++s) phones.AddState();
  phones.SetStart(0);
  phones.AddArc(0, StdArc(3, 1, 0.5, 1));
  phones.AddArc(1, StdArc(9, 0, 0.25, 2));  // disambiguation
  phones.AddArc(2, StdArc(4, 0, 0.125, 3));
  phones.SetFinal(3, 1);
  StdVectorFst out;
  std::vector<ContextLabel> labels;
  const Sequence disambiguation = {9};
  ExpandContext(phones, 3, disambiguation, &out, &labels);
  const Paths paths = EnumeratePaths(out, 10, {});
  ASSERT_EQ(paths.size(), 1u);
  const auto& [in, words] = paths.begin()->first;
  EXPECT_NEAR(paths.begin()->second, 1.875, 1e-6);
  EXPECT_EQ(words, Sequence{1});
  ASSERT_EQ(in.size(), 3u);
  std::vector<ContextLabel> read;
  for (const int32_t label : in) read.push_back(labels[static_cast<size_t>(label)]);
  EXPECT_EQ(read[0].disambiguation, 9);
  EXPECT_EQ(read[1].window, (Sequence{0, 3, 4}));
  EXPECT_EQ(read[2].window, (Sequence{3, 4, 0}));
}

HmmModel ToyModel(const Lexicon& lexicon, int states, int silence_states) {
  TopologyOptions options;
  options.num_states = states;
  options.num_silence_states = silence_states;
  const Topology topology(lexicon.phones(), options);
  return HmmModel(lexicon.phones(), topology, ContextTree::Monophone(topology));
}

// The whole chain, as a decoder builds it.
StdVectorFst BuildToyGraph(const HmmModel& model, const Lexicon& lexicon, double self_loop_scale) {
  StdVectorFst l;
  StdVectorFst lg;
  StdVectorFst clg;
  StdVectorFst h;
  StdVectorFst hclg;
  const Sequence lexicon_symbols = BuildLexiconFst(lexicon, true, &l);
  StdVectorFst composed;
  fst::Compose(l, ToyGrammar(lexicon, true), &composed);
  fst::Determinize(composed, &lg);
  std::vector<ContextLabel> labels;
  ExpandContext(lg, model.context_width(), lexicon_symbols, &clg, &labels);
  MergeEquivalentLabels(model, &clg, &labels);
  const Sequence symbols = BuildHmmFst(model, labels, &h);
  fst::ArcSort(&clg, fst::ILabelCompare<StdArc>());
  fst::Compose(h, clg, &hclg);
  StdVectorFst graph;
  fst::Determinize(hclg, &graph);
  const std::set<int32_t> silent(symbols.begin(), symbols.end());
  for (int s = 0; s < graph.NumStates(); ++s) {
    for (fst::MutableArcIterator<StdVectorFst> it(&graph, s); !it.Done(); it.Next()) {
      StdArc arc = it.Value();
      if (silent.contains(arc.ilabel)) arc.ilabel = 0;
      it.SetValue(arc);
    }
  }
  fst::RmEpsilon(&graph);
  AddSelfLoops(model, self_loop_scale, &graph);
  return graph;
}

TEST(HmmFst, GraphSpeaksTheSentencesOfTheLexicon) {
  const Lexicon lexicon = Lexicon::Parse(kToyLexicon, "toy");
  const HmmModel model = ToyModel(lexicon, 1, 2);
  const StdVectorFst graph = BuildToyGraph(model, lexicon, 1.0);
  Paths spoken;
  for (const auto& [labels, cost] : EnumeratePaths(graph, 8, {})) {
    Sequence phones;
    float hmm_cost = 0;
    for (const int32_t id : labels.first) hmm_cost -= model.transitions().LogProb(id);
    for (const PhoneSegment& segment : model.SplitToPhones(labels.first)) phones.push_back(segment.phone);
    const float rest = cost - hmm_cost;  // of pauses and words
    const auto [it, added] = spoken.emplace(std::pair(phones, labels.second), rest);
    EXPECT_NEAR(it->second, rest, 1e-4);
  }
  Paths want;
  for (const auto& [key, cost] : SayWords(lexicon, Sentences(lexicon, 2), 8)) {
    size_t frames = 0;
    for (const int32_t phone : key.first) frames += phone == lexicon.optional_silence() ? 2 : 1;
    if (frames <= 8) want.emplace(key, cost);
  }
  ExpectSamePaths(spoken, want);
}

TEST(HmmFst, ErgodicSilenceAndThreeStatesWalkThroughWholePhones) {
  const Lexicon lexicon = Lexicon::Parse("A AH\n", "toy");
  const HmmModel model = ToyModel(lexicon, 3, 5);
  const StdVectorFst graph = BuildToyGraph(model, lexicon, 0.1);
  const Paths paths = EnumeratePaths(graph, 7, {});
  EXPECT_GT(paths.size(), 20u);
  for (const auto& [labels, cost] : paths) {
    size_t frames = 0;
    for (const PhoneSegment& segment : model.SplitToPhones(labels.first))
      frames += static_cast<size_t>(segment.num_frames);
    EXPECT_EQ(frames, labels.first.size());
  }
}

}  // namespace
}  // namespace antiphon::hmm
