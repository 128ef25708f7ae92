#include "hmm/lexicon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace antiphon::hmm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text, const LexiconOptions& options = {}, std::optional<PhoneSet> phones = {}) {
  try {
    Lexicon::Parse(text, "lexicon.txt", options, std::move(phones));
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Lexicon, ReadsVariantsInTheOrderOfTheFile) {
  const Lexicon lexicon = Lexicon::Parse("<SIL> SIL\nONE W AH N\nTWO T UW\nONE HH W AH N\n", "lexicon.txt");
  ASSERT_EQ(lexicon.num_words(), 3);
  EXPECT_EQ(lexicon.Word(2), "ONE");
  EXPECT_EQ(lexicon.PronunciationsOf(2).size(), 2u);
  EXPECT_EQ(lexicon.PronunciationsOf(3).size(), 1u);
  EXPECT_EQ(lexicon.phones().Name(1), "SIL");
  EXPECT_TRUE(lexicon.phones().IsSilence(1));
  EXPECT_THAT(lexicon.phones().Names(), ElementsAre("SIL", "AH", "HH", "N", "T", "UW", "W"));
  EXPECT_EQ(lexicon.FindWord("THREE"), 0);
}

TEST(Lexicon, ReadsProbabilities) {
  const Lexicon lexicon = Lexicon::Parse("A 1.0 AH\nA 0.5 EY\n", "lexiconp.txt");
  EXPECT_FLOAT_EQ(lexicon.PronunciationsOf(1)[0].cost, 0);
  EXPECT_NEAR(lexicon.PronunciationsOf(1)[1].cost, 0.6931F, 1e-4);
  EXPECT_THAT(ErrorOf("A 1.5 AH\n"), HasSubstr("lexicon.txt:1: word 'A' has probability 1.5"));
}

TEST(Lexicon, TakesOneFormOfUnicode) {
  const Lexicon lexicon = Lexicon::Parse("Cafe\u0301 K AE e\u0301\nCaf\u00e9 K AH \u00e9\n", "lexicon.txt");
  EXPECT_EQ(lexicon.num_words(), 1);
  EXPECT_EQ(lexicon.FindWord("Caf\u00e9"), 1);
  EXPECT_THAT(lexicon.phones().Names(), ElementsAre("SIL", "AE", "AH", "K", "\u00e9"));
  EXPECT_THAT(ErrorOf("A AH\nCaf\xe9 K\n"),
              ::testing::AllOf(HasSubstr("lexicon.txt:2:"), HasSubstr("byte 4 (0xe9) is not UTF-8")));
}

TEST(Lexicon, TakesNumbersWithoutPointAsPhones) {
  const Lexicon lexicon = Lexicon::Parse("A 1 2\nB 2\n", "lexicon.txt");
  EXPECT_EQ(lexicon.PronunciationsOf(1)[0].phones.size(), 2u);
}

TEST(Lexicon, RefusesAPronunciationOfABook) {
  std::string line = "NOVEL";
  for (int i = 0; i < 1001; ++i) line += " AH";
  EXPECT_THAT(ErrorOf("A AH\n" + line + "\n"), HasSubstr("lexicon.txt:2: word 'NOVEL' has 1001 phones; at most 1000"));
  EXPECT_EQ(ErrorOf("A AH\n" + line.substr(0, line.size() - 3) + "\n"), "");
}

TEST(Lexicon, NamesTheLineOfEveryError) {
  EXPECT_THAT(ErrorOf("A AH\nB\n"), HasSubstr("lexicon.txt:2: word 'B' has no phones"));
  EXPECT_THAT(ErrorOf("A AH\nB B\n\nA AH\n"),
              HasSubstr("lexicon.txt:4: word 'A' has the same pronunciation as in line 1"));
  EXPECT_THAT(ErrorOf("<eps> AH\n"), HasSubstr("lexicon.txt:1: '<eps>' is reserved"));
  EXPECT_THAT(ErrorOf("A SIL\nB AX\n", {}, PhoneSet({"AH", "SIL"}, {"SIL"}, false)),
              HasSubstr("lexicon.txt:2: word 'B':\n  unknown phone 'AX'"));
  EXPECT_THAT(ErrorOf("\n\n"), HasSubstr("no entries"));
  EXPECT_THAT(ErrorOf(std::string_view("A \0B\n", 5)), HasSubstr("lexicon.txt:1: a zero byte"));
}

TEST(Lexicon, TellsWordPositionsApart) {
  LexiconOptions options;
  options.position_dependent = true;
  const Lexicon lexicon = Lexicon::Parse("A AH\nBAT B AE T\n", "lexicon.txt", options);
  const PhoneSet& phones = lexicon.phones();
  const auto& bat = lexicon.PronunciationsOf(lexicon.FindWord("BAT"))[0].phones;
  EXPECT_EQ(phones.Name(bat[0]), "B_B");
  EXPECT_EQ(phones.Name(bat[1]), "AE_I");
  EXPECT_EQ(phones.Name(bat[2]), "T_E");
  EXPECT_EQ(phones.Name(lexicon.PronunciationsOf(1)[0].phones[0]), "AH_S");
  EXPECT_EQ(phones.BaseGroups().size(), 5u);  // SIL and four
  const Lexicon again = Lexicon::Parse(lexicon.ToText(), "text", options, phones);
  EXPECT_EQ(again.PronunciationsOf(2)[0].phones, bat);
}

TEST(Lexicon, WritesTheSmallestProbabilityAsOneThatIsRead) {
  const Lexicon lexicon = Lexicon::Parse("A 1 AH\nA 1e-12 B\n", "lexiconp.txt");
  EXPECT_EQ(Lexicon::Parse(lexicon.ToText(), "text").PronunciationsOf(1).size(), 2U);
}

TEST(Lexicon, ReportsUnknownWordsAndMapsThemOnlyIfAsked) {
  const Lexicon lexicon = Lexicon::Parse("<UNK> SPN\nONE W AH N\n", "lexicon.txt");
  const std::vector<std::string> words = {"ONE", "ELEVEN", "ONE"};
  const WordIds skipped = LookUpWords(lexicon, words, false);
  EXPECT_TRUE(skipped.ids.empty());
  EXPECT_THAT(skipped.unknown, ElementsAre("ELEVEN"));
  EXPECT_THAT(LookUpWords(lexicon, words, true).ids, ElementsAre(2, 1, 2));
}

}  // namespace
}  // namespace antiphon::hmm
