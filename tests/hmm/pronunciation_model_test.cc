// Probabilities of pronunciations and pauses: counts by hand, the files, and the lexicon transducer against all ways to
// say some words.
#include "hmm/graph/pronunciation_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "hmm/graph/lexicon_fst.h"
#include "hmm/graph/openfst.h"

namespace antiphon::hmm {
namespace {

using fst::StdArc;
using fst::StdVectorFst;
using ::testing::HasSubstr;
using Sequence = std::vector<int32_t>;
using Paths = std::map<std::pair<Sequence, Sequence>, double>;  // (phones, words) → cost

// Entries 0 and 1 are TO and TOO, which sound alike, TOOL begins as they do, A has two pronunciations.
constexpr std::string_view kToyLexicon = "TO T UW\nTOO T UW\nTOOL T UW L\nA AH\nA EY\n";

TEST(PronunciationModel, CountsAsPublished) {
  const Lexicon lexicon = Lexicon::Parse(kToyLexicon, "toy");
  // SIL TO A(AH) SIL A(AH); TO SIL A(EY) SIL; SIL alone says nothing.
  const std::vector<SpokenWords> said = {
      {{0, 3, 3}, {true, false, true, false}}, {{0, 4}, {false, true, true}}, {{}, {true}}};
  const PronunciationModel model = EstimatePronunciations(lexicon, said);
  const double overall = 4.0 / 7;
  EXPECT_NEAR(model.pause_overall, overall, 1e-9);
  // With λ = 1 for pronunciations, 2 for pauses.
  EXPECT_NEAR(model.entries[3].probability, 1.0, 1e-9);
  EXPECT_NEAR(model.entries[4].probability, (1.0 + 1) / (2 + 1), 1e-9);
  EXPECT_NEAR(model.entries[2].probability, 1.0, 1e-9) << "never heard";
  const double start = (1 + 2 * overall) / (2 + 2), after_to = (1 + 2 * overall) / (2 + 2);
  const double after_ah = (1 + 2 * overall) / (2 + 2);
  EXPECT_NEAR(model.pause_at_start, start, 1e-9);
  EXPECT_NEAR(model.entries[0].pause_after, after_to, 1e-9);
  EXPECT_NEAR(model.entries[3].pause_after, after_ah, 1e-9);
  EXPECT_NEAR(model.entries[4].pause_after, (1 + 2 * overall) / (1 + 2), 1e-9);
  EXPECT_NEAR(model.entries[1].pause_after, overall, 1e-9);
  // TO stands twice behind the start, once after a pause; A(AH) behind TO and A(AH), once after a pause.
  EXPECT_NEAR(model.entries[0].factor_after_pause, (1 + 2) / (2 * start + 2), 1e-9);
  EXPECT_NEAR(model.entries[0].factor_after_none, (1 + 2) / (2 * (1 - start) + 2), 1e-9);
  EXPECT_NEAR(model.entries[3].factor_after_pause, (1 + 2) / (after_to + after_ah + 2), 1e-9);
  EXPECT_NEAR(model.entries[4].factor_after_none, (0 + 2) / (1 - after_to + 2), 1e-9);
  EXPECT_NEAR(model.entries[2].factor_after_pause, 1.0, 1e-9);
  EXPECT_NEAR(model.end_factor_after_pause, (1 + 2) / (after_ah + model.entries[4].pause_after + 2), 1e-9);
  EXPECT_NEAR(model.end_factor_after_none, (1 + 2) / (2 - after_ah - model.entries[4].pause_after + 2), 1e-9);
  EXPECT_THROW(EstimatePronunciations(lexicon, {}), InputError);
}

// Speech that is said by a known model gives that model back.
TEST(PronunciationModel, ComesNearTheTruth) {
  const Lexicon lexicon = Lexicon::Parse("A AH\nA EY\nB B\n", "toy");
  const double after[] = {0.1, 0.6, 0.3};
  Rng rng(5);
  std::vector<SpokenWords> said;
  double heard[3] = {}, paused[3] = {};
  for (int u = 0; u < 3000; ++u) {
    SpokenWords& utterance = said.emplace_back();
    utterance.pauses.push_back(rng.Uniform() < 0.8);
    for (int n = 0; n < 6; ++n) {
      const int32_t entry = rng.Uniform() < 0.5 ? 2 : rng.Uniform() < 0.75 ? 0 : 1;
      utterance.entries.push_back(entry);
      utterance.pauses.push_back(rng.Uniform() < after[entry]);
      ++heard[entry];
      paused[entry] += utterance.pauses.back() ? 1 : 0;
    }
  }
  const PronunciationModel model = EstimatePronunciations(lexicon, said);
  EXPECT_NEAR(model.pause_at_start, 0.8, 0.02);
  EXPECT_NEAR(model.entries[1].probability, 1.0 / 3, 0.03);
  for (size_t e = 0; e < 3; ++e) {
    EXPECT_NEAR(model.entries[e].pause_after, after[e], 0.05);
    EXPECT_NEAR(model.entries[e].pause_after, paused[e] / heard[e], 1e-3) << "but for smoothing";
    // Pauses here do not depend on the word behind them.
    EXPECT_NEAR(model.entries[e].factor_after_pause, 1.0, 0.05);
    EXPECT_NEAR(model.entries[e].factor_after_none, 1.0, 0.05);
  }
}

TEST(PronunciationModel, SmoothsWithTheLexiconsOwnProbabilities) {
  const Lexicon lexicon = Lexicon::Parse("A 1.0 AH\nA 0.25 EY\n", "toy");
  const std::vector<SpokenWords> said = {{{1}, {false, false}}};
  const PronunciationModel model = EstimatePronunciations(lexicon, said);
  EXPECT_NEAR(model.entries[0].probability, 1.0 / 1.25, 1e-6);
  EXPECT_NEAR(model.entries[1].probability, 1.0, 1e-6);
}

PronunciationModel SomeModel() {
  PronunciationModel model{0.7, 1.25, 0.5, 0.2, {}};
  model.entries = {{1, 0.1, 0.9, 1.1}, {1, 0.3, 1.5, 0.75}, {1, 0.25, 1, 1}, {0.5, 0.05, 2, 0.8}, {1, 0.6, 0.4, 1.3}};
  return model;
}

TEST(PronunciationModel, SurvivesItsFiles) {
  LexiconOptions positions;
  positions.position_dependent = true;
  for (const LexiconOptions& options : {LexiconOptions{}, positions}) {
    const Lexicon lexicon = Lexicon::Parse(kToyLexicon, "toy", options);
    const PronunciationModel model = SomeModel();
    const std::string entries = EntriesToText(model, lexicon), pauses = PausesToText(model);
    EXPECT_THAT(entries, HasSubstr("\nA 0.500000 0.050000 2.000000 0.800000 AH\n"));
    int missing = -1;
    const PronunciationModel again = ParsePronunciations(entries, "e", pauses, "p", lexicon, &missing);
    EXPECT_EQ(missing, 0);
    EXPECT_EQ(EntriesToText(again, lexicon), entries);
    EXPECT_EQ(PausesToText(again), pauses);
  }
}

TEST(PronunciationModel, NamesWhatIsWrongWithFiles) {
  const Lexicon lexicon = Lexicon::Parse(kToyLexicon, "toy");
  const std::string pauses = PausesToText(SomeModel());
  const auto error = [&](const std::string& entries, const std::string& pauses_text) -> std::string {
    try {
      ParsePronunciations(entries, "e.txt", pauses_text, "p.txt", lexicon, nullptr);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error("A 1 0.5 1 1 AH\n", pauses), "");
  EXPECT_THAT(error("A 1 0.5 1 1 AH\nTWO 1 0.5 1 1 T UW\n", pauses), HasSubstr("e.txt:2: the word 'TWO' is not in"));
  EXPECT_THAT(error("A 1 0.5 1 1 UW\n", pauses), HasSubstr("e.txt:1: the lexicon does not say 'A' as 'UW'"));
  EXPECT_THAT(error("A 1 0.5 1 1 ZZ\n", pauses), HasSubstr("e.txt:1: word 'A'"));
  EXPECT_THAT(error("A AH\n", pauses), HasSubstr("e.txt:1: expected WORD, 4 numbers"));
  EXPECT_THAT(error("A 0 0.5 1 1 AH\n", pauses), HasSubstr("e.txt:1: expected a probability"));
  EXPECT_THAT(error("A 1.5 0.5 1 1 AH\n", pauses), HasSubstr("found '1.5'"));
  EXPECT_THAT(error("A 1 nan 1 1 AH\n", pauses), HasSubstr("a pause's probability"));
  EXPECT_THAT(error("A 1 0.5 1 -1 AH\n", pauses), HasSubstr("a factor"));
  EXPECT_THAT(error("A 1 0.5 1 1 AH\nA 1 0.5 1 1 AH\n", pauses), HasSubstr("e.txt:2: 'A' has this pronunciation"));
  EXPECT_THAT(error("", "<s> 0.5\n"), HasSubstr("p.txt: there is no line '</s>_n'"));
  EXPECT_THAT(error("", pauses + "<s> 0.5\n"), HasSubstr("p.txt:5: expected one each"));
  EXPECT_THAT(error("", "<s> x\n"), HasSubstr("p.txt:1"));
}

TEST(PronunciationModel, TakesWhatTheFileLacksAsNeverHeard) {
  const Lexicon lexicon = Lexicon::Parse("A 1.0 AH\nA 0.25 EY\nB 1.0 B\n", "toy");
  int missing = 0;
  const PronunciationModel model =
      ParsePronunciations("B 1 0.4 1.5 0.5 B\n", "e", PausesToText(SomeModel()), "p", lexicon, &missing);
  EXPECT_EQ(missing, 2);
  EXPECT_NEAR(model.entries[1].probability, 0.25, 1e-6);
  EXPECT_EQ(model.entries[1].pause_after, model.pause_overall);
  EXPECT_EQ(model.entries[1].factor_after_none, 1.0);
  EXPECT_EQ(model.entries[2].factor_after_pause, 1.5);
}

Paths EnumeratePaths(const StdVectorFst& fst, size_t most_phones, const std::set<int32_t>& no_phones) {
  Paths paths;
  std::function<void(int, const Sequence&, const Sequence&, double, int)> walk =
      [&](int state, const Sequence& phones, const Sequence& words, double cost, int idle) {
        if (phones.size() > most_phones || idle > 6) return;
        if (fst.Final(state) != StdArc::Weight::Zero()) {
          const auto [it, added] = paths.emplace(std::pair(phones, words), cost + fst.Final(state).Value());
          if (!added) it->second = std::min(it->second, cost + fst.Final(state).Value());
        }
        for (fst::ArcIterator<StdVectorFst> it(fst, state); !it.Done(); it.Next()) {
          const StdArc& arc = it.Value();
          Sequence next_phones = phones, next_words = words;
          const bool silent = arc.ilabel == 0 || no_phones.contains(arc.ilabel);
          if (!silent) next_phones.push_back(arc.ilabel);
          if (arc.olabel != 0) next_words.push_back(arc.olabel);
          walk(arc.nextstate, next_phones, next_words, cost + arc.weight.Value(), silent ? idle + 1 : 0);
        }
      };
  walk(fst.Start(), {}, {}, 0, 0);
  return paths;
}

// Every way to say up to `most_words` words: the product of the model's numbers.
Paths SayWords(const Lexicon& lexicon, const PronunciationModel& model, size_t most_words, size_t most_phones) {
  Paths paths;
  std::function<void(const Sequence&, const Sequence&, double, double)> say =
      [&](const Sequence& phones, const Sequence& words, double probability, double pause_next) {
        for (const bool pause : {false, true}) {
          Sequence spoken = phones;
          if (pause) spoken.push_back(lexicon.optional_silence());
          if (spoken.size() > most_phones) continue;
          const double here = probability * (pause ? pause_next : 1 - pause_next);
          const double end = here * (pause ? model.end_factor_after_pause : model.end_factor_after_none);
          const auto [it, added] = paths.emplace(std::pair(spoken, words), -std::log(end));
          if (!added) it->second = std::min(it->second, -std::log(end));
          if (words.size() == most_words) continue;
          for (size_t e = 0; e < model.entries.size(); ++e) {
            const PronunciationModel::Entry& entry = model.entries[e];
            Sequence longer = spoken, more = words;
            longer.insert(longer.end(), lexicon.entries()[e].phones.begin(), lexicon.entries()[e].phones.end());
            more.push_back(lexicon.entries()[e].word);
            const double factor = pause ? entry.factor_after_pause : entry.factor_after_none;
            say(longer, more, here * entry.probability * factor, entry.pause_after);
          }
        }
      };
  say({}, {}, 1.0, model.pause_at_start);
  return paths;
}

void ExpectSamePaths(const Paths& got, const Paths& want, double tolerance = 1e-4) {
  ASSERT_EQ(got.size(), want.size());
  for (auto it = got.begin(); const auto& [key, cost] : want) {
    EXPECT_EQ(it->first, key);
    EXPECT_NEAR(it->second, cost, tolerance);
    ++it;
  }
}

TEST(PausedLexiconFst, CostsAreTheModelsForEveryWayToSayWords) {
  const Lexicon lexicon = Lexicon::Parse(kToyLexicon, "toy");
  const PronunciationModel model = SomeModel();
  StdVectorFst l;
  EXPECT_TRUE(BuildLexiconFst(lexicon, false, &l, &model).empty());
  ExpectSamePaths(EnumeratePaths(l, 5, {}), SayWords(lexicon, model, 5, 5));
}

TEST(PausedLexiconFst, CanBeDeterminisedWithAGrammarThatBacksOff) {
  const Lexicon lexicon = Lexicon::Parse(kToyLexicon, "toy");
  const PronunciationModel model = SomeModel();
  StdVectorFst l, g, lg, determinised;
  const Sequence disambiguation = BuildLexiconFst(lexicon, true, &l, &model);
  // Up to two words, backing off in between.
  for (int s = 0; s < 4; ++s) g.AddState();
  g.SetStart(0);
  for (const int s : {0, 1, 2}) g.SetFinal(s, 0);
  for (int32_t w = 1; w <= lexicon.num_words(); ++w) {
    g.AddArc(0, StdArc(w, w, 0, 1));
    g.AddArc(3, StdArc(w, w, 0, 2));
  }
  g.AddArc(1, StdArc(lexicon.backoff_word(), 0, 0, 3));
  fst::ArcSort(&g, fst::ILabelCompare<StdArc>());
  fst::Compose(l, g, &lg);
  fst::Determinize(lg, &determinised);
  ExpectSamePaths(EnumeratePaths(determinised, 9, {disambiguation.begin(), disambiguation.end()}),
                  SayWords(lexicon, model, 2, 9), 4 * fst::kDelta);  // OpenFst rounds what is left over
}

// Pauses that depend on nothing are the ordinary lexicon's.
TEST(PausedLexiconFst, EqualsThePlainOneWhereNothingWasLearnt) {
  LexiconOptions options;
  options.silence_probability = 0.3;
  const Lexicon lexicon = Lexicon::Parse("A 1.0 AH\nA 0.25 EY\nB 1.0 B\n", "toy", options);
  PronunciationModel model{0.3, 1, 1, 0.3, {}};
  for (const Pronunciation& entry : lexicon.entries()) model.entries.push_back({std::exp(-entry.cost), 0.3, 1, 1});
  StdVectorFst plain, paused;
  BuildLexiconFst(lexicon, false, &plain);
  BuildLexiconFst(lexicon, false, &paused, &model);
  ExpectSamePaths(EnumeratePaths(paused, 5, {}), EnumeratePaths(plain, 5, {}));
}

}  // namespace
}  // namespace antiphon::hmm
