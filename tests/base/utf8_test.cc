#include "base/utf8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

#include "base/error.h"

namespace antiphon {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Utf8, RefusesWhatTheStandardRefuses) {
  for (const char* good : {"", "abc", "caf\xc3\xa9", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(FindBadUtf8(good), std::string_view::npos) << good;
  }
  for (const char* bad :
       {"\x80", "\xc0\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3"}) {
    EXPECT_EQ(FindBadUtf8(bad), 0u);
    EXPECT_THROW(DecodeUtf8(bad), InputError);
    EXPECT_THROW(ComposeUtf8(bad), InputError);
  }
  EXPECT_EQ(FindBadUtf8("a\xc3\xa9\xff"), 3u);
  EXPECT_THAT(ErrorOf([] { ComposeUtf8("ab\xe9"); }), HasSubstr("byte 3 (0xe9) is not UTF-8"));
  EXPECT_THAT(ErrorOf([] { ComposeLines("ab\ncaf\xe9 x\n", "words.txt"); }),
              ::testing::AllOf(HasSubstr("words.txt:2"), HasSubstr("byte 4")));
}

TEST(Utf8, ShowsWhatItIsNot) {
  EXPECT_EQ(ShowBadUtf8("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(ShowBadUtf8("\xff"
                        "caf\xe9 \xc3"),
            "\\xFFcaf\\xE9 \\xC3");
  EXPECT_EQ(ShowBadUtf8(""), "");
}

TEST(Utf8, DecodesWhatItEncodes) {
  const std::string text = "a\u00e9\u8a9e\U0001f600";
  EXPECT_EQ(DecodeUtf8(text), (std::vector<char32_t>{U'a', 0xe9, 0x8a9e, 0x1f600}));
  EXPECT_EQ(EncodeUtf8(DecodeUtf8(text)), text);
}

TEST(Utf8, BringsAccentsIntoOneForm) {
  EXPECT_EQ(ComposeUtf8("Cafe\u0301"), "Caf\u00e9");
  EXPECT_EQ(ComposeUtf8("Caf\u00e9"), "Caf\u00e9");
  EXPECT_EQ(ComposeUtf8("tie\u0302\u0301ng"), "ti\u1ebfng");           // Vietnamese, two marks
  EXPECT_EQ(ComposeUtf8("tie\u0301\u0302ng"), "ti\u00e9\u0302ng");     // in another order another letter
  EXPECT_EQ(ComposeUtf8("\u1112\u1161\u11ab"), "\ud55c");              // Korean
  EXPECT_EQ(ComposeUtf8("\u0e19\u0e49\u0e33"), "\u0e19\u0e49\u0e33");  // Thai has nothing to compose
  EXPECT_EQ(ComposeLines("a\ne\u0301\n", "f"), "a\n\u00e9\n");
}

TEST(Utf8, LinesHaveNoByteOrderMark) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_EQ(ComposeLines(mark + "A AH\nB\n", "f"), "A AH\nB\n");
  EXPECT_EQ(ComposeLines("A" + mark, "f"), "A" + mark) << "at the begin alone";
}

TEST(Utf8, KnowsTheCaseOfEveryAlphabet) {
  const std::vector<std::pair<const char*, const char*>> pairs = {
      {"abc", "ABC"},
      {"\u00e9\u00ff\u017e", "\u00c9\u0178\u017d"},
      {"\u03ac\u03ad\u03ae\u03af\u03cc\u03cd\u03ce", "\u0386\u0388\u0389\u038a\u038c\u038e\u038f"},  // accented Greek
      {"\u1f00", "\u1f08"},                                                                          // ancient Greek
      {"\u0436\u0451\u0491", "\u0416\u0401\u0490"},
      {"\u1ebf\u01b0\u1edd\u0111", "\u1ebe\u01af\u1edc\u0110"},  // Vietnamese
      {"\u0561\u0562\u0586", "\u0531\u0532\u0556"},              // Armenian
      {"\u10d0", "\u1c90"},                                      // Georgian
  };
  for (const auto& [lower, upper] : pairs) {
    EXPECT_EQ(UpperCase(lower), upper);
    EXPECT_EQ(LowerCase(upper), lower);
    EXPECT_EQ(FoldCase(lower), FoldCase(upper));
  }
  EXPECT_EQ(UpperCase("stra\u00dfe"), "STRASSE");
  EXPECT_EQ(UpperCase("\u0587"), "\u0535\u0552");
  EXPECT_EQ(LowerCase("\u039b\u039f\u0393\u039f\u03a3 \u03a3"), "\u03bb\u03bf\u03b3\u03bf\u03c2 \u03c3");
  EXPECT_EQ(LowerCase("\u0130I"), "ii");
  EXPECT_EQ(UpperCase("\u0928\u092e\u0938\u094d\u0924\u0947"),
            "\u0928\u092e\u0938\u094d\u0924\u0947");  // Hindi has none
}

TEST(Utf8, TellsPunctuationFromLetters) {
  for (const char32_t c :
       std::u32string(U"!,.?\u060c\u061b\u061f\u06d4\u0964\u0965\u055e\u0589\u3002\u00bf\u2026\u20ac")) {
    EXPECT_TRUE(IsPunctuation(c)) << std::hex << static_cast<uint32_t>(c);
  }
  for (const char32_t c : std::u32string(U"a1\u00e9\u0301\u0928\u094d\u200d\u30fc\u0640")) {
    EXPECT_FALSE(IsPunctuation(c)) << std::hex << static_cast<uint32_t>(c);
  }
  for (const char32_t c : std::u32string(U" \t\n\u00a0\u2009\u3000\u2028")) EXPECT_TRUE(IsBlank(c));
  for (const char32_t c : std::u32string(U"\u00ad\u200b\u200e\u202b\ufeff")) EXPECT_TRUE(IsInvisible(c));
  for (const char32_t c : std::u32string(U"\u200c\u200da")) EXPECT_FALSE(IsInvisible(c) || IsBlank(c));
}

TEST(Utf8, MeasuresColumnsOfATerminal) {
  EXPECT_EQ(DisplayColumns("abc"), 3u);
  EXPECT_EQ(DisplayColumns("e\u0301"), 1u);
  EXPECT_EQ(DisplayColumns("\u8a9e\u8a9e"), 4u);
  EXPECT_EQ(DisplayColumns("\xff"
                           "a"),
            2u);
}

}  // namespace
}  // namespace antiphon
