// Words that no lexicon has: a recogniser in one place pronounces them, and aligns them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "antiphon/aligner.h"
#include "antiphon/g2p.h"
#include "antiphon/recognizer.h"
#include "api/error_of.h"
#include "api/two_words.h"
#include "base/error.h"
#include "base/file.h"
#include "base/team.h"
#include "feat/audio.h"
#include "pipeline/align.h"
#include "pipeline/bundle.h"

namespace antiphon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MessageOf;

class NewWordsTest : public ::testing::Test {
 protected:
  NewWordsTest() {
    WriteFileAtomically(Path("letters.txt"), "a A\nb B\nab A B\nba B A\naba A B A\nbab B A B\n");
    TrainG2p(Path("letters.txt"), Path("toy.g2p"), "order = 2", 1);
    feat::WriteWav(Path("noise.wav"), {testing::Noise(testing::kRateHz * 3), testing::kRateHz});
    request_.model = Path("net.safetensors");
    request_.graph = Path("graph");
    request_.g2p = Path("toy.g2p");
    request_.out = Path("small.antiphon");
  }
  std::string Path(const std::string& name) const { return (system_.folder / name).string(); }

  testing::TwoWords system_{false};
  pipeline::BundleRequest request_;
};

TEST_F(NewWordsTest, ARecogniserPronouncesThem) {
  EXPECT_EQ(pipeline::WriteBundle(request_).at("g2p").at("words"), 6);
  const G2p alone(Path("toy.g2p")), bundled(request_.out);
  EXPECT_THAT(alone.Letters(), ElementsAre("a", "b"));
  EXPECT_THAT(alone.Phones(), ElementsAre("A", "B"));
  EXPECT_THAT(bundled.Pronounce("abba")[0].phones, ElementsAre("A", "B", "B", "A"));
  EXPECT_EQ(bundled.Pronounce("abba", {.nbest = 3}), alone.Pronounce("abba", {.nbest = 3}));
  EXPECT_THAT(MessageOf([&] { alone.Pronounce("abc"); }), AllOf(HasSubstr("'abc'"), HasSubstr("'c'")));
  EXPECT_THAT(MessageOf([&] { alone.Pronounce("ab", {.nbest = 0}); }), HasSubstr("nbest"));
}

// A graph on the fly takes them.
TEST_F(NewWordsTest, ARecogniserGetsThemWhenItStarts) {
  system_.SaveParts();
  pipeline::WriteBundle(request_);
  const auto with = [&](const std::string& graph, std::vector<AddedWord> words) {
    return Recognizer(request_.out, graph, {.add_words = std::move(words)});
  };
  const Recognizer more = with(Path("parts"), {{"abba"}, {"THREE", "B A B", 1000.0}, {"THREE", "A B", 1000.0}});
  EXPECT_THAT(more.Vocabulary(), ElementsAre("ONE", "TWO", "THREE", "abba"));
  EXPECT_THAT(more.RecognizeFile(Path("noise.wav")).text, HasSubstr("THREE"));
  EXPECT_THAT(with(Path("parts"), {{"two", "B A B"}}).Vocabulary(), ElementsAre("ONE", "TWO")) << "in its letters";
  EXPECT_THAT(MessageOf([&] { with(Path("parts"), {{"two words"}}); }), HasSubstr("'two words' is not one word"));
  EXPECT_THAT(MessageOf([&] { with(Path("parts"), {{"X", "Q"}}); }), AllOf(HasSubstr("'X'"), HasSubstr("'Q'")));
  EXPECT_THAT(MessageOf([&] { with(Path("parts"), {{"X", "A", 0.0}}); }), HasSubstr("weight"));
  EXPECT_THAT(MessageOf([&] { with("", {{"abba"}}); }), HasSubstr("--on-the-fly"));
}

TEST_F(NewWordsTest, ARecogniserAlignsThem) {
  pipeline::WriteBundle(request_);
  const AlignedSpeech speech = Aligner(request_.out).AlignFile(Path("noise.wav"), "ONE ABBA TWO");
  ASSERT_EQ(speech.words.size(), 3U);
  EXPECT_EQ(speech.words[1].word, "ABBA");
  EXPECT_EQ(speech.words[1].num_phones, 4);
  EXPECT_TRUE(speech.unknown_words.empty());

  WriteFileAtomically(Path("text.tsv"), "noise\tONE ABBA TWO\n");
  pipeline::AlignRequest align;
  align.model = request_.out;
  align.data = Path("noise.wav");
  align.audio.transcripts = Path("text.tsv");
  align.out = Path("ali");
  pipeline::Align(align, Team::Alone(), 1);
  EXPECT_EQ(ToCtm(speech, "noise"), ReadFile(Path("ali/words.ctm")));
  EXPECT_EQ(ReadFile(Path("ali/lexicon.txt")), "ONE A\nTWO B\nABBA A B B A\n");
}

TEST_F(NewWordsTest, OtherPhonesAreRefused) {
  WriteFileAtomically(Path("letters.txt"), "a A\nq Q\n");
  TrainG2p(Path("letters.txt"), Path("toy.g2p"), "order = 2", 1);
  EXPECT_THAT(MessageOf([&] { pipeline::WriteBundle(request_); }), AllOf(HasSubstr("toy.g2p"), HasSubstr("'Q'")));
}

TEST_F(NewWordsTest, ARecogniserWithoutThemSaysSo) {
  request_.g2p.clear();
  pipeline::WriteBundle(request_);
  EXPECT_THAT(MessageOf([&] { G2p{request_.out}; }), HasSubstr("antiphon bundle --g2p"));
}

}  // namespace
}  // namespace antiphon
