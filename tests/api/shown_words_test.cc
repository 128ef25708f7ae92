#include "api/shown_words.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace antiphon {
namespace {

// "2-5" is a stretch of other words.
std::string Shown(const std::vector<int32_t>& words, const decode::PhraseList* phrases, bool ended) {
  std::string text;
  for (const ShownWord& shown : ShownWords(words, phrases, ended)) {
    text += (text.empty() ? "" : " ") + std::to_string(shown.begin);
    if (shown.other) text = text + "-" + std::to_string(shown.end);
  }
  return text;
}

const std::vector<std::vector<int32_t>>& ThePhrases() {
  static const std::vector<std::vector<int32_t>> phrases = {{1, 2}, {3}};
  return phrases;
}

TEST(ShownWords, AreAllWithoutPhrases) { EXPECT_EQ(Shown({5, 1, 3}, nullptr, true), "0 1 2"); }

TEST(ShownWords, StretchesOfOtherWordsAreOne) {
  const decode::PhraseList list(ThePhrases(), true);
  EXPECT_EQ(Shown({7, 8, 1, 2, 9, 3, 4, 1}, &list, true), "0-2 2 3 4-5 5 6-8") << "a phrase that was cut off is none";
  EXPECT_EQ(Shown({7, 8, 1, 2, 9, 3, 4, 1}, &list, false), "0-2 2 3 4-5 5 6-7 7") << "it may still become one";
  EXPECT_EQ(Shown({7, 8}, &list, true), "0-2");
  EXPECT_EQ(Shown({}, &list, true), "");
}

TEST(ShownWords, WhatIsNoPhraseIsLeftOutWhereNothingElseMayBeSaid) {
  const decode::PhraseList list(ThePhrases(), false);
  EXPECT_EQ(Shown({3, 1, 2, 1}, &list, true), "0 1 2");
  EXPECT_EQ(Shown({3, 1, 2, 1}, &list, false), "0 1 2 3");
}

}  // namespace
}  // namespace antiphon
