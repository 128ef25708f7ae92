// Rules of written form: their language, the English ones, transducers of others.
#include "written/rules.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/random.h"
#include "hmm/graph/openfst.h"
#include "mutated_fst.h"
#include "temporary_folder.h"
#include "written/rule_source.h"

namespace antiphon::written {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> Split(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

Rules Built(const std::string& text) {
  fst::StdVectorFst rules;
  BuildRules(text, "test.rules", &rules);
  return Rules(rules, "test.rules");
}

// The first phrase and what is left: "25 | dollars".
std::string First(const Rules& rules, const std::string& words) {
  const std::vector<std::string> all = Split(words);
  const Rules::Result result = rules.Read(all);
  if (!result.match) return "-";
  std::string text = result.match->text;
  for (size_t i = static_cast<size_t>(result.match->num_words); i < all.size(); ++i) text += " | " + all[i];
  return text;
}

TEST(RuleSource, ReadsEveryOperator) {
  const Rules rules = Built(R"(
digit = "one":"1" | "two":"2"
# A comment.
more  = (" ":"" digit)*
written = digit more "!"? | "x" <2>
        | "x":"y" <1> | "q\"":"\\" | ("a ":"b")+ "c")");
  EXPECT_EQ(First(rules, "one"), "1");
  EXPECT_EQ(First(rules, "one two two one!"), "1221!");
  EXPECT_EQ(First(rules, "x"), "y");
  EXPECT_EQ(First(rules, "q\""), "\\");
  EXPECT_EQ(First(rules, "a a c"), "bbc");
  EXPECT_EQ(First(rules, "c"), "-");
}

std::string ErrorOf(const std::string& text) {
  try {
    Built(text);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(RuleSource, NamesTheLineOfAMistake) {
  EXPECT_THAT(ErrorOf("a = \"x\"\n"), HasSubstr("defines no rule 'written'"));
  EXPECT_THAT(ErrorOf("written = \"x\"\n  b"), HasSubstr("test.rules:2: 'b' is not defined above"));
  EXPECT_THAT(ErrorOf("a = \"x\"\nwritten = (a"), HasSubstr("test.rules:2: a ( is not closed"));
  EXPECT_THAT(ErrorOf("written = \"x"), HasSubstr("a \" is not closed"));
  EXPECT_THAT(ErrorOf("written = \"x\" <-1>"), HasSubstr("a cost of 0 or more"));
  EXPECT_THAT(ErrorOf("written = \"x\" |"), HasSubstr("the rule ends"));
  EXPECT_THAT(ErrorOf("written = \"x\" )"), HasSubstr("expected the end"));
  EXPECT_THAT(ErrorOf("a = \"x\"\na = \"y\""), HasSubstr("test.rules:2: 'a' is defined twice"));
  EXPECT_THAT(ErrorOf("what is this"), HasSubstr("expected NAME = EXPRESSION"));
  const auto nested = [](size_t depth) {
    return "written =\n " + std::string(depth, '(') + "\"x\"" + std::string(depth, ')');
  };
  EXPECT_EQ(ErrorOf(nested(200)), "no error");
  EXPECT_THAT(ErrorOf(nested(20000)), HasSubstr("test.rules:2: more than 200 ( within each other"));
}

TEST(EnglishRules, WriteNumbersTimesAndMoney) {
  const Rules rules = Rules::English();
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"twenty five", "25"},
      {"one", "-"},
      {"ten", "10"},
      {"a hundred", "100"},
      {"two hundred and thirty four", "234"},
      {"three hundred seven", "307"},
      {"five thousand", "5,000"},
      {"twelve thousand three hundred and forty five", "12,345"},
      {"one hundred twenty thousand and six", "120,006"},
      {"two million", "2 million"},
      {"one million two hundred thousand", "1,200,000"},
      {"nineteen hundred", "1900"},
      {"twelve hundred and fifty", "1250"},
      {"a thousand and five hundred", "1,500"},
      {"three million and twenty thousand", "3,020,000"},
      {"three point one four", "3.14"},
      {"zero point five", "0.5"},
      {"three point five million", "3.5 million"},
      {"nineteen eighty four", "1984"},
      {"twenty twenty six", "2026"},
      {"nineteen oh five", "1905"},
      {"two thousand and eight", "2008"},
      {"twenty first", "21st"},
      {"thirty second", "thirty second"},
      {"one hundred and third", "103rd"},
      {"first", "-"},
      {"ten thirty p m", "10:30 p.m."},
      {"five a m", "5 a.m."},
      {"eight oh five pm", "8:05 p.m."},
      {"at ten thirty", "at 10:30"},
      {"at ten thirty p m", "at 10:30 p.m."},
      {"at eight oh five", "at 8:05"},
      {"at twelve fifty five", "at 12:55"},
      {"two fifty p m", "2:50 p.m."},
      {"two fifty", "two fifty"},
      {"ten thirty", "ten thirty"},
      {"two fifty dollars", "two fifty dollars"},
      {"two fifty each", "two fifty each"},
      {"at two fifty", "at 2:50"},
      {"at two fifty a share", "at two fifty a share"},
      {"at ten sixty each", "at ten sixty each"},
      {"at two fifty a m", "at 2:50 a.m."},
      {"priced at two fifty", "priced at two fifty"},
      {"at three fifty degrees", "at 350 degrees"},
      {"one oh five miles", "105 miles"},
      {"twelve fifty five feet", "1255 feet"},
      {"half past three", "3:30"},
      {"twenty past three", "3:20"},
      {"five minutes past twelve", "12:05"},
      {"twenty five past ten", "10:25"},
      {"a quarter to one", "12:45"},
      {"five o'clock", "5:00"},
      {"twenty five dollars", "$25"},
      {"one dollar", "$1"},
      {"two hundred and five dollars and fifty cents", "$205.50"},
      {"one dollar fifty", "$1.50"},
      {"three million pounds", "£3 million"},
      {"twelve euros", "€12"},
      {"five pounds of", "5 pounds of"},
      {"one or two pounds of", "1 or 2 pounds of"},
      {"one or two dollars", "$1 or $2"},
      {"twenty to twenty five euros", "€20 to €25"},
      {"one or two hundred dollars", "one or two hundred dollars"},
      {"ten to twenty five million pounds", "ten to twenty five million pounds"},
      {"second of may", "second of May"},
      {"twenty first of june", "21st of June"},
      {"nine cents", "9¢"},
      {"seven percent", "7%"},
      {"two point five percent", "2.5%"},
      {"five five five oh one two", "555012"},
      {"oh oh oh", "-"},
      {"i'm", "I'm"},
      {"house", "-"},
  };
  for (const auto& [spoken, written] : expected) EXPECT_EQ(First(rules, spoken), written) << spoken;
  EXPECT_EQ(First(rules, "twenty five dollars please"), "$25 | please");
  EXPECT_EQ(First(rules, "twenty twins"), "20 | twins");
  EXPECT_EQ(First(rules, "five pounds of sugar"), "5 pounds of | sugar");
  EXPECT_EQ(First(rules, "ten past midnight"), "10 | past | midnight");
  EXPECT_EQ(First(rules, "at ten sixty"), "-");
  // Without what makes it a time, a price or a measure it is none of them.
  EXPECT_EQ(First(rules, "two fifty people"), "two fifty | people");
  EXPECT_EQ(First(rules, "at two fifty a man came"), "at 2:50 | a | man | came");
}

std::string Spell(int n) {
  static const char* const ones[] = {"",         "one",     "two",     "three",     "four",     "five",    "six",
                                     "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                                     "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
  static const char* const tens[] = {"",      "",      "twenty",  "thirty", "forty",
                                     "fifty", "sixty", "seventy", "eighty", "ninety"};
  const auto join = [](std::string a, const std::string& b) { return b.empty() ? a : a + " " + b; };
  if (n < 20) return ones[n];
  if (n < 100) return join(tens[n / 10], ones[n % 10]);
  if (n < 1000) return join(Spell(n / 100) + " hundred", Spell(n % 100));
  return join(Spell(n / 1000) + " thousand", Spell(n % 1000));
}

std::string WithCommas(int n) {
  std::string digits = std::to_string(n);
  for (size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

// What an independent speller says comes back as digits.
TEST(EnglishRules, WriteAnyNumberBelowAMillion) {
  const Rules rules = Rules::English();
  for (int n = 10; n < 1000000; n = n < 2000 ? n + 1 : n + 997) {
    // "Two thousand eight" is a year.
    const bool is_year = n > 2000 && n < 2100;
    ASSERT_EQ(First(rules, Spell(n)), is_year ? std::to_string(n) : WithCommas(n)) << Spell(n);
  }
}

TEST(Rules, KnowWhetherAPhraseMayGoOn) {
  const Rules rules = Rules::English();
  EXPECT_TRUE(rules.Read(Split("twenty")).open);
  EXPECT_TRUE(rules.Read(Split("half")).open);
  EXPECT_FALSE(rules.Read(Split("house")).open);
  EXPECT_FALSE(rules.Read(Split("twenty five dollars and fifty cents")).open);
}

TEST(Rules, OfOthersComeFromOpenFstFiles) {
  // What pynini writes for cross("kilo gramme", "kg"): bytes, a vector file, here with ε between them and a detour.
  fst::StdVectorFst made;
  for (int s = 0; s < 14; ++s) made.AddState();
  made.SetStart(0);
  const std::string spoken = "kilo gramme";
  for (size_t i = 0; i < spoken.size(); ++i) {
    const int output = i == 0 ? 'k' : i == 5 ? 'g' : 0;
    made.AddArc(static_cast<int>(i), {spoken[i], output, 0.0F, static_cast<int>(i) + 1});
  }
  made.AddArc(11, {0, 0, 0.5F, 12});
  made.AddArc(11, {0, '!', 2.0F, 13});
  made.AddArc(12, {0, 0, 0.0F, 12});  // a cycle that reads nothing
  made.SetFinal(12, 0.0F);
  made.SetFinal(13, 0.0F);
  const antiphon::testing::TemporaryFolder folder;
  ASSERT_TRUE(made.Write((folder.path() / "units.fst").string()));
  EXPECT_EQ(First(Rules::Load(folder.path() / "units.fst"), "kilo gramme"), "kg");

  const Rules english = Rules::English();
  english.Save(folder.path() / "english.fst");
  EXPECT_EQ(First(Rules::Load(folder.path() / "english.fst"), "twenty five dollars"), "$25");

  made.AddArc(0, {70000, 0, 0.0F, 1});
  EXPECT_THROW(Rules(made, "x"), InputError);
  std::ofstream(folder.path() / "none.fst") << "no transducer";
  EXPECT_THROW(Rules::Load(folder.path() / "none.fst"), InputError);
}

// Both types that are read.
TEST(Rules, MutatedAnyhowAreRefusedOrRead) {
  const antiphon::testing::TemporaryFolder folder;
  fst::StdVectorFst made;
  BuildRules("written = \"two\":\"2\" | \"ten \":\"\" (\"one\":\"11\" | \"two\":\"12\")", "test.rules", &made);
  const std::string file = (folder.path() / "r.fst").string();
  for (const bool constant : {false, true}) {
    ASSERT_TRUE(constant ? fst::StdConstFst(made).Write(file) : made.Write(file));
    const std::string whole = ReadFile(file);
    int refused = 0, read = 0;
    for (uint64_t seed = 1; seed <= 400; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", constant ? "const" : "vector", seed));
      Rng rng(seed);
      std::ofstream(file, std::ios::binary) << antiphon::testing::MutatedFst(whole, rng);
      try {
        Rules::Load(file).Read(Split("ten two ten"));
        ++read;
      } catch (const InputError&) {
        ++refused;
      }
    }
    EXPECT_GT(refused, 150);
    EXPECT_GT(read, 30);
  }
}

}  // namespace
}  // namespace antiphon::written
