// What was said as people write it: rules, full stops and capitals together, and what may change while somebody speaks.
#include "written/written_form.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/random.h"
#include "math/safetensors.h"
#include "temporary_folder.h"
#include "written/rule_source.h"
#include "written/sentence_scores.h"
#include "written/sentence_training.h"

namespace antiphon::written {
namespace {

// Words of 0.3 s each; "/" between two is a pause of a second.
std::vector<SpokenWord> Say(const std::string& text) {
  std::istringstream in(text);
  std::vector<SpokenWord> words;
  double at = 0;
  for (std::string word; in >> word;) {
    if (word == "/") {
      at += 1.0;
      continue;
    }
    words.push_back({word, at, at + 0.3});
    at += 0.3;
  }
  return words;
}

std::string Text(const WrittenText& text) {
  std::string all;
  for (const WrittenToken& token : text.tokens) all += (all.empty() ? "" : " ") + token.text;
  return all;
}

// Sentences of a small language: names have capitals, "is" begins questions.
std::string Novel(uint64_t seed, int sentences) {
  static const std::vector<std::string> names = {"Anna", "Mr Brown", "London", "NASA", "McDuff"};
  static const std::vector<std::string> verbs = {"saw", "left", "likes", "wrote to"};
  Rng rng(seed);
  std::string text;
  const auto pick = [&](const std::vector<std::string>& from) { return from[rng.Below(from.size())]; };
  for (int s = 0; s < sentences; ++s) {
    switch (rng.Below(3)) {
      case 0:
        text += "The man " + pick(verbs) + " " + pick(names) + " in the house.\n";
        break;
      case 1:
        text += "Is it " + pick(names) + " or the man?\n";
        break;
      default:
        text += "However, he " + pick(verbs) + " " + pick(names) + " again. ";
        break;
    }
  }
  return text;
}

SentenceModel Learnt() { return TrainSentences(ReadPunctuated(Novel(1, 400)), {.buckets = 4096}); }

TEST(PunctuatedText, IsTakenApart) {
  const auto words = ReadPunctuated("“Well,” said O’Brien e.g. here: the U.S. fleet left… Did it? iPhone-like\n");
  std::string seen;
  for (const PunctuatedWord& word : words) {
    seen += word.word + "/" + std::to_string(static_cast<int>(word.mark)) +
            std::to_string(static_cast<int>(word.letters)) + (word.mixed ? "m " : " ");
  }
  EXPECT_EQ(
      seen,
      "well/11 said/00 o'brien/02m e.g/00 here/10 the/00 u.s/02 fleet/00 left/20 did/01 it/30 iphone/02m like/00 ");
}

// Soft hyphens, marks of direction and of places to break.
TEST(PunctuatedText, LacksWhatCannotBeSeen) {
  const auto words = ReadPunctuated("The re\u00ADcog\u00ADniser\u200B. \u200EIt hears\u00AD.");
  std::vector<std::string> seen;
  for (const PunctuatedWord& word : words) seen.push_back(word.word);
  EXPECT_EQ(seen, (std::vector<std::string>{"the", "recogniser", "it", "hears"}));
}

TEST(SentenceModel, LearnsEndsCapitalsAndQuestions) {
  const SentenceModel model = Learnt();
  const SentenceScores scores = ScoreSentences(model, ReadPunctuated(Novel(2, 200)));
  EXPECT_GT(scores.ends.recall(), 0.97);
  EXPECT_GT(scores.ends.precision(), 0.97);
  EXPECT_GT(scores.capitals.recall(), 0.97);
  EXPECT_GT(scores.capitals.precision(), 0.97);
  const WrittenForm form({}, model, true);
  EXPECT_EQ(Text(form.Write(Say("IS IT MCDUFF OR THE MAN HE SAW NASA AGAIN"), true)),
            "Is it McDuff or the man? He saw NASA again.");
}

TEST(SentenceModel, IsTheSameFromAFile) {
  const antiphon::testing::TemporaryFolder folder;
  const SentenceModel model = Learnt();
  model.Save(folder.path() / "sentences.safetensors");
  const auto form = WrittenForm::Load(FilesOf(folder.path().string()), true);
  const auto words = Say("however he saw mr brown again the man left london in the house");
  EXPECT_EQ(Text(form.Write(words, true)), Text(WrittenForm({}, model, true).Write(words, true)));
  EXPECT_THROW(TrainSentences(ReadPunctuated("no stops at all"), {}), InputError);
  std::ofstream(folder.path() / "other.safetensors") << "nothing";
  EXPECT_THROW(WrittenForm::Load({(folder.path() / "other.safetensors").string()}, true), InputError);
  EXPECT_THROW(FilesOf((folder.path() / "none").string()), InputError);
}

TEST(WrittenForm, WithoutAModelPausesEndSentences) {
  const auto form = WrittenForm::Load({kEnglish}, true);
  EXPECT_EQ(Text(form.Write(Say("I PAID TWENTY FIVE DOLLARS / AT HALF PAST THREE / YES"), true)),
            "I paid $25. At 3:30. Yes.");
  EXPECT_EQ(Text(form.Write(Say("COME AT FIVE P M"), true)), "Come at 5 p.m.");
  EXPECT_EQ(Text(form.Write({}, true)), "");
}

// Amounts stay what they are, and what could be two things stays words.
TEST(WrittenForm, EnglishAmountsKeepTheirSize) {
  const auto form = WrittenForm::Load({kEnglish}, true);
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"half a million dollars", "Half a million dollars."},
      {"half a million people", "Half a million people."},
      {"three quarters of a million dollars", "Three quarters of a million dollars."},
      {"two thirds of a hundred", "Two thirds of a hundred."},
      {"a quarter of a billion", "A quarter of a billion."},
      {"half past a hundred", "Half past 100."},
      {"twelve hundred and fifty dollars", "$1250."},
      {"eleven hundred fifty dollars", "$1150."},
      {"fifteen hundred and sixty people", "1560 people."},
      {"twelve hundred dollars and five cents", "$1200.05."},
      {"three million and twenty thousand", "3,020,000."},
      {"three million and twenty thousand and five", "3,020,005."},
      {"a thousand and five hundred", "1,500."},
      {"between one hundred and two hundred people", "Between 100 and 200 people."},
      {"between two thousand and three thousand dollars", "Between 2,000 and $3,000."},
      {"two hundred thousand and three million", "200,000 and 3 million."},
      {"two point five dollars and fifty cents", "$2.5 and 50¢."},
      {"one million dollars and five cents", "$1,000,000.05."},
      {"one million dollars", "$1 million."},
      {"one dollar fifty", "$1.50."},
      {"two pounds twenty five please", "£2.25 please."},
      {"ten dollars twenty minutes later", "$10 20 minutes later."},
      {"two dollars fifty thousand times", "$2 50,000 times."},
      {"ten dollars twenty dollars", "$10 $20."},
      {"ten dollars twenty percent", "$10 20%."},
      {"a thirty second video", "A thirty second video."},
      {"thirty second of may", "Thirty second of may."},
      {"forty first of may", "41st of may."},
      {"twenty second of may", "22nd of May."},
      {"thirty first of may", "31st of May."},
      {"one hundred and thirty second", "132nd."},
      {"oh oh oh what a night", "Oh oh oh what a night."},
      {"oh oh seven", "007."},
      {"zero zero zero", "000."},
  };
  for (const auto& [spoken, written] : expected) EXPECT_EQ(Text(form.Write(Say(spoken), true)), written) << spoken;
}

// An end that is a start and a duration may lie past the next start by a rounding.
TEST(WrittenForm, WordsWithoutAPauseHaveNone) {
  const antiphon::testing::TemporaryFolder folder;
  SafetensorsWriter file;  // a stop is a little more likely than none, without a pause a little less
  file.Add("marks", std::vector<float>{0.0F, -2.0F, 0.05F, -2.0F});
  file.Add("letters", std::vector<float>{0.0F, -1.0F, -1.0F});
  file.SetMetadata("format", "antiphon-sentences-1");
  file.SetMetadata("spellings", "");
  file.Write(folder.path() / "sentences.safetensors");
  const auto form = WrittenForm::Load({(folder.path() / "sentences.safetensors").string()}, true);
  std::vector<SpokenWord> words = {{"here", 0.1, 0.1 + 0.2}, {"we", 0.3, 0.5}, {"are", 0.5, 0.8}};
  ASSERT_LT(words[1].start_s, words[0].end_s);
  EXPECT_EQ(Text(form.Write(words, true)), "Here we are.");
  for (SpokenWord& word : words) word.start_s = word.end_s = 0;
  EXPECT_EQ(Text(form.Write(words, true)), "Here. We. Are.");
}

TEST(WrittenForm, PhrasesEndAtPauses) {
  const auto form = WrittenForm::Load({kEnglish}, true);
  EXPECT_EQ(Text(form.Write(Say("SHE IS TWENTY / FIVE DOLLARS IS ENOUGH"), true)), "She is 20. $5 is enough.");
  auto words = Say("SHE IS TWENTY / FIVE DOLLARS");
  for (SpokenWord& word : words) word.start_s = word.end_s = 0;
  EXPECT_EQ(Text(form.Write(words, true)), "She is $25.") << "times that are not known are no pauses";
}

TEST(WrittenForm, KeepsTheLettersOfARecogniserThatHasThem) {
  const auto form = WrittenForm::Load({kEnglish}, IsInCapitals(std::vector<std::string>{"Tom", "twenty"}));
  EXPECT_EQ(Text(form.Write(Say("tell Tom Twenty one"), true)), "Tell Tom 21.");
  EXPECT_TRUE(IsInCapitals(std::vector<std::string>{"<eps>", "[noise]", "TWO", "ÜBER", "МОСКВА"}));
  EXPECT_FALSE(IsInCapitals(std::vector<std::string>{"<eps>", "Москва"}));
  EXPECT_TRUE(IsInCapitals(std::vector<std::string>{"TWO", "ÜBER", "iPhone"})) << "the third was added";
  const auto capitals = WrittenForm::Load({kEnglish}, true);
  EXPECT_EQ(Text(capitals.Write(Say("MY iPhone RANG"), true)), "My iPhone rang.");
}

TEST(WrittenForm, TokensSpanAllWordsInOrder) {
  const auto form = WrittenForm::Load({kEnglish}, true);
  const auto words = Say("one hundred and three houses at ten thirty p m");
  int next = 0;
  for (const WrittenToken& token : form.Write(words, true).tokens) {
    EXPECT_EQ(token.first_word, next);
    EXPECT_GT(token.num_words, 0);
    next += token.num_words;
  }
  EXPECT_EQ(next, static_cast<int>(words.size()));
}

// What is settled stays, whatever is said after it: at every length of many texts.
TEST(WrittenForm, SettledTokensNeverChange) {
  static const std::vector<std::string> vocabulary = {
      "twenty", "five", "dollars", "and",    "fifty",   "cents", "half", "past",  "the", "man",
      "is",     "it",   "london",  "mcduff", "hundred", "p",     "m",    "point", "oh",  "/"};
  std::vector<Rules> rules = {Rules::English()};
  const std::optional<SentenceModel> models[] = {std::nullopt, Learnt()};
  int settled_in_all = 0;
  for (int round = 0; round < 60; ++round) {
    const WrittenForm form(rules, models[round % 2], true);
    Rng rng(7, static_cast<uint64_t>(round));
    std::string text;
    for (int w = 0; w < 25; ++w) text += vocabulary[rng.Below(vocabulary.size())] + " ";
    const std::vector<SpokenWord> words = Say(text);
    const WrittenText whole = form.Write(words, true);
    for (size_t count = 1; count <= words.size(); ++count) {
      const WrittenText part = form.Write(std::span(words).first(count), false);
      ASSERT_LE(part.num_settled, static_cast<int>(part.tokens.size()));
      settled_in_all += part.num_settled;
      for (int t = 0; t < part.num_settled; ++t) {
        ASSERT_EQ(part.tokens[static_cast<size_t>(t)].text, whole.tokens[static_cast<size_t>(t)].text)
            << text << " after " << count;
      }
    }
  }
  EXPECT_GT(settled_in_all, 60 * 100);  // it does not hold its tongue
}

}  // namespace
}  // namespace antiphon::written
