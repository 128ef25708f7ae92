// Texts and what a recogniser found of them: stretches hold all words and frames, and what is sure is right.
#include "pipeline/text_anchors.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace antiphon::pipeline {
namespace {

constexpr int kFramesPerWord = 30;

std::vector<FoundWord> Say(const std::vector<int32_t>& words) {
  std::vector<FoundWord> found;
  int at = 0;
  for (const int32_t word : words) {
    found.push_back({word, at, at + kFramesPerWord - 5});
    at += kFramesPerWord;
  }
  return found;
}

std::vector<int32_t> Text(int length, int vocabulary, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> text;
  for (int i = 0; i < length; ++i)
    text.push_back(1 + static_cast<int32_t>(rng.Below(static_cast<uint64_t>(vocabulary))));
  return text;
}

// Nothing is lost or twice, and sure stretches hold the words that were found there.
void Check(const std::vector<TextStretch>& stretches, const std::vector<int32_t>& text,
           const std::vector<FoundWord>& found, int num_frames) {
  int word = 0, frame = 0;
  for (const TextStretch& s : stretches) {
    ASSERT_EQ(s.first_word, word);
    ASSERT_EQ(s.begin_frame, frame);
    ASSERT_GE(s.num_words, 0);
    ASSERT_GT(s.end_frame, s.begin_frame);
    word += s.num_words;
    frame = s.end_frame;
    if (!s.sure) continue;
    std::vector<int32_t> its_words;
    for (const FoundWord& f : found) {
      if (f.begin_frame >= s.begin_frame && f.end_frame <= s.end_frame) its_words.push_back(f.word);
    }
    const auto from = text.begin() + s.first_word;
    ASSERT_EQ(its_words, std::vector<int32_t>(from, from + s.num_words));
  }
  ASSERT_EQ(word, static_cast<int>(text.size()));
  ASSERT_EQ(frame, num_frames);
}

int SureWords(const std::vector<TextStretch>& stretches) {
  int words = 0;
  for (const TextStretch& s : stretches) words += s.sure ? s.num_words : 0;
  return words;
}

TEST(TextAnchors, ATextThatWasSaidIsSureButForItsEnds) {
  const auto text = Text(400, 50, 1);
  const auto found = Say(text);
  const int frames = 400 * kFramesPerWord;
  const auto stretches = CutAtAnchors(text, found, frames, 600);
  Check(stretches, text, found, frames);
  EXPECT_GE(SureWords(stretches), 395);
  for (const TextStretch& s : stretches) EXPECT_LE(s.end_frame - s.begin_frame, 700);
}

TEST(TextAnchors, FindWhatIsMissingOnEitherSide) {
  const auto text = Text(300, 200, 2);
  std::vector<int32_t> said(text.begin(), text.begin() + 100);  // 50 words of the text are not said
  said.insert(said.end(), text.begin() + 150, text.begin() + 200);
  const auto foreign = Text(40, 200, 3);  // 40 others are
  said.insert(said.end(), foreign.begin(), foreign.end());
  said.insert(said.end(), text.begin() + 200, text.end());
  const auto found = Say(said);
  const int frames = static_cast<int>(said.size()) * kFramesPerWord;
  const auto stretches = CutAtAnchors(text, found, frames, 600);
  Check(stretches, text, found, frames);
  EXPECT_GE(SureWords(stretches), 235);
}

TEST(TextAnchors, RandomTextsAndRecordings) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed, 9);
    const auto text = Text(static_cast<int>(rng.Below(120)), 1 + static_cast<int>(rng.Below(30)), seed);
    std::vector<int32_t> said;
    for (const int32_t word : text) {
      const double chance = rng.Uniform();
      if (chance < 0.1) continue;
      said.push_back(chance < 0.2 ? 99 : word);
      if (chance > 0.95) said.push_back(98);
    }
    if (said.empty()) said.push_back(7);
    const auto found = Say(said);
    const int frames = static_cast<int>(said.size()) * kFramesPerWord + static_cast<int>(rng.Below(50));
    Check(CutAtAnchors(text, found, frames, 100 + static_cast<int>(rng.Below(900))), text, found, frames);
  }
}

TEST(TextAnchors, NothingFoundIsOneDoubtfulStretch) {
  const auto text = Text(20, 10, 4);
  const std::vector<TextStretch> expected = {{0, 20, 0, 1000, false}};
  EXPECT_EQ(CutAtAnchors(text, {}, 1000, 300), expected);
}

// So many words that they are not compared one by one.
TEST(MatchWords, LongTextsMatchAsShortOnesDo) {
  const auto text = Text(9000, 1500, 5);
  std::vector<int32_t> said(text.begin(), text.begin() + 4000);
  const auto foreign = Text(3000, 1500, 6);
  said.insert(said.end(), foreign.begin(), foreign.end());
  said.insert(said.end(), text.begin() + 5000, text.end());
  for (size_t i = 0; i < said.size(); i += 17) said[i] = 1501;
  const auto pairs = MatchWords(text, said);
  int right = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    if (i > 0) {
      ASSERT_GT(pairs[i].first, pairs[i - 1].first);
      ASSERT_GT(pairs[i].second, pairs[i - 1].second);
    }
    ASSERT_EQ(text[static_cast<size_t>(pairs[i].first)], said[static_cast<size_t>(pairs[i].second)]);
    const int expected = pairs[i].second < 4000 ? pairs[i].second : pairs[i].second - 2000;
    right += pairs[i].first == expected ? 1 : 0;
  }
  EXPECT_GT(right, 7450);  // of 8000, of which every 17th is wrong
}

}  // namespace
}  // namespace antiphon::pipeline
