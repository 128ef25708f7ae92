#include "decode/lattice/word_times.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace antiphon::decode {
namespace {

class WordTimes : public ::testing::Test {
 protected:
  static hmm::Lexicon MakeLexicon() {
    hmm::LexiconOptions options;
    options.silence_phones = {"SIL", "SPN"};
    return hmm::Lexicon::Parse("A AH\nAT AH T\nTEA T IY\n<UNK> SPN\n", "lexicon.txt", options);
  }
  static hmm::HmmModel MakeModel(const hmm::Lexicon& lexicon) {
    hmm::TopologyOptions options;
    options.num_states = 2;
    options.num_silence_states = 1;
    const hmm::Topology topology(lexicon.phones(), options);
    return {lexicon.phones(), topology, hmm::ContextTree::Monophone(topology)};
  }

  // Appends a phone with the given frames per state.
  void Say(const std::string& name, const std::vector<int>& frames) {
    const int32_t phone = lexicon_.phones().Id(name);
    for (size_t s = 0; s < frames.size(); ++s) {
      const int32_t state = model_.TransitionState(std::vector<int32_t>{phone}, static_cast<int>(s));
      const int32_t loop = model_.transitions().SelfLoopOf(state);
      for (int t = 0; t < model_.transitions().NumTransitions(state); ++t) {
        const int32_t id = model_.transitions().TransitionId(state, t);
        if (id != loop) path_.alignment.push_back(id);
      }
      path_.alignment.insert(path_.alignment.end(), frames[s] - 1, loop);
    }
  }

  void SayAtATea() {
    path_.words = {lexicon_.FindWord("AT"), lexicon_.FindWord("A"), lexicon_.FindWord("TEA")};
    Say("SIL", {3});
    Say("AH", {2, 1});
    Say("T", {1, 4});
    Say("AH", {1, 1});
    Say("SIL", {2});
    Say("T", {1, 1});
    Say("IY", {1, 1});
  }

  hmm::Lexicon lexicon_ = MakeLexicon();
  hmm::HmmModel model_ = MakeModel(lexicon_);
  LatticePath path_;
};

TEST_F(WordTimes, FindWordsBetweenPauses) {
  SayAtATea();
  const PathTimes times = FindTimes(model_, lexicon_, path_);
  ASSERT_EQ(times.words.size(), 3U);
  EXPECT_EQ(times.words[0].begin_frame, 3);
  EXPECT_EQ(times.words[0].num_frames, 8);
  EXPECT_EQ(times.words[1].begin_frame, 11);
  EXPECT_EQ(times.words[1].num_frames, 2);
  EXPECT_EQ(times.words[2].begin_frame, 15);
  EXPECT_EQ(times.words[2].num_frames, 4);
  ASSERT_EQ(times.phones.size(), 7U);
  EXPECT_EQ(times.phones[0].word_index, -1);
  EXPECT_EQ(times.phones[2].word_index, 0);
  EXPECT_EQ(times.phones[4].word_index, -1);
}

// "A TEA" and "AT" + T would share phones; the words decide.
TEST_F(WordTimes, FollowTheWordsWhereThePhonesAreAmbiguous) {
  path_.words = {lexicon_.FindWord("A"), lexicon_.FindWord("TEA")};
  Say("AH", {1, 1});
  Say("T", {1, 1});
  Say("IY", {1, 1});
  EXPECT_EQ(FindTimes(model_, lexicon_, path_).words[0].num_frames, 2);
}

TEST_F(WordTimes, LetUnknownWordsTakeWhatOthersLeave) {
  path_.words = {lexicon_.unknown_word(), lexicon_.FindWord("TEA"), lexicon_.unknown_word()};
  Say("SIL", {1});
  for (const char* phone : {"T", "IY", "AH", "T", "IY"}) Say(phone, {1, 1});
  Say("SIL", {1});
  Say("SPN", {2});
  const PathTimes times = FindTimes(model_, lexicon_, path_);
  ASSERT_EQ(times.words.size(), 3U);
  EXPECT_EQ(times.words[0].num_frames, 6);
  EXPECT_EQ(times.words[1].begin_frame, 7);
  EXPECT_EQ(times.words[1].num_frames, 4);
  EXPECT_EQ(times.words[2].begin_frame, 12) << "without a graph that spells them, they have the lexicon's phone";
}

TEST_F(WordTimes, AllowAnUnfinishedEnd) {
  path_.words = {lexicon_.FindWord("A"), lexicon_.FindWord("TEA")};
  Say("AH", {1, 1});
  Say("T", {1});
  const PathTimes times = FindTimes(model_, lexicon_, path_);
  EXPECT_EQ(times.words[1].begin_frame, 2);
  EXPECT_EQ(times.words[1].num_frames, 1);
}

TEST_F(WordTimes, AllowAnEndWhoseWordWasNotSaidYet) {
  path_.words = {lexicon_.FindWord("A")};
  Say("AH", {1, 1});
  Say("SIL", {2});
  Say("T", {1});
  const PathTimes times = FindTimes(model_, lexicon_, path_);
  ASSERT_EQ(times.words.size(), 1U);
  EXPECT_EQ(times.words[0].num_frames, 2);
  EXPECT_EQ(times.phones[2].word_index, -1);
}

TEST_F(WordTimes, AllowPhonesWhoseWordIsNotToldYet) {
  path_.words = {lexicon_.FindWord("A")};
  Say("AH", {1, 1});
  Say("T", {2, 1});
  Say("IY", {1});
  const PathTimes times = FindTimes(model_, lexicon_, path_);
  ASSERT_EQ(times.words.size(), 1U);
  EXPECT_EQ(times.words[0].num_frames, 2);
  EXPECT_EQ(times.phones[1].word_index, -1);
}

// As of a search that goes on: wherever it stands, and however many words it is ahead of its phones or behind them,
// what has been said stands where it stands in the end.
TEST_F(WordTimes, OfAPathThatGoesOnAreThoseOfItsEnd) {
  SayAtATea();
  const PathTimes whole = FindTimes(model_, lexicon_, path_);
  LatticePath so_far;
  for (size_t frames = 0; frames < path_.alignment.size(); ++frames) {
    so_far.alignment.assign(path_.alignment.begin(), path_.alignment.begin() + static_cast<std::ptrdiff_t>(frames));
    size_t begun = 0, over = 0;
    for (const TimedWord& word : whole.words) {
      begun += word.begin_frame < static_cast<int>(frames) ? 1 : 0;
      over += word.begin_frame + word.num_frames <= static_cast<int>(frames) ? 1 : 0;
    }
    for (size_t told = over; told <= path_.words.size(); ++told) {
      so_far.words.assign(path_.words.begin(), path_.words.begin() + static_cast<std::ptrdiff_t>(told));
      const PathTimes times = FindTimes(model_, lexicon_, so_far);
      ASSERT_EQ(times.words.size(), told) << frames << " frames";
      for (size_t w = 0; w < told; ++w) {
        const int end = times.words[w].begin_frame + times.words[w].num_frames;
        EXPECT_LE(end, static_cast<int>(frames));
        if (w < begun) {
          EXPECT_EQ(times.words[w].begin_frame, whole.words[w].begin_frame) << frames << " frames";
        }
        if (w < over) {
          EXPECT_EQ(times.words[w].num_frames, whole.words[w].num_frames) << frames << " frames";
        }
      }
    }
  }
}

// Places for each pair of a word and a phone would be more than there is memory for.
TEST_F(WordTimes, OfAnHourTakeNoMoreThanItsLength) {
  constexpr int kWords = 40000;
  for (int w = 0; w < kWords; ++w) {
    path_.words.push_back(lexicon_.FindWord(w % 2 == 0 ? "AT" : "TEA"));
    Say(w % 2 == 0 ? "AH" : "T", {1, 1});
    Say(w % 2 == 0 ? "T" : "IY", {1, 1});
    if (w % 5 == 0) Say("SIL", {2});
  }
  const PathTimes times = FindTimes(model_, lexicon_, path_);
  ASSERT_EQ(times.words.size(), static_cast<size_t>(kWords));
  EXPECT_EQ(times.words.back().begin_frame, static_cast<int>(path_.alignment.size()) - 4);
}

TEST_F(WordTimes, OfNothingAreNothing) {
  EXPECT_TRUE(FindTimes(model_, lexicon_, path_).words.empty());
  path_.words = {lexicon_.FindWord("TEA"), lexicon_.FindWord("A")};
  Say("IY", {1, 1});
  Say("AH", {1, 1});
  EXPECT_THROW(FindTimes(model_, lexicon_, path_), InternalError);
}

}  // namespace
}  // namespace antiphon::decode
