// Features of another kind are told apart even where they have as many dimensions.
#include "data/feature_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "data/frame_store.h"
#include "temporary_folder.h"

namespace antiphon::data {
namespace {

using ::testing::HasSubstr;

class FeatureKindTest : public ::testing::Test {
 protected:
  FrameStore Store(const FeatureKind& kind) {
    FrameStoreWriter writer(folder_ / "store", 40, 2);
    writer.Add("u", "s", Matrix(3, 40), std::vector<int32_t>(3, 1));
    writer.Finish(kind.ToToml());
    return FrameStore(folder_ / "store");
  }
  // What is wrong with a store of one kind for a network that takes another.
  std::string Wrong(const FeatureKind& found, const FeatureKind& wanted) {
    const FrameStore store = Store(found);
    try {
      RequireKind(store, wanted, "the network");
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  }
  testing::TemporaryFolder folder_;
};

TEST_F(FeatureKindTest, StandsInTheStore) {
  const FeatureKind kind{"mel-bins = 40\nkind = \"fbank\"\n", "0123456789abcdef", "mean", 8, "fedcba9876543210"};
  const FeatureKind found = KindOf(Store(kind));
  EXPECT_EQ(Config::Parse(found.front_end, "found").ToToml(), Config::Parse(kind.front_end, "kind").ToToml());
  EXPECT_EQ(found.speaker_space, kind.speaker_space);
  EXPECT_EQ(found.normalisation, "mean");
  EXPECT_EQ(found.speaker_vector_dim, 8);
  EXPECT_EQ(found.speaker_vectors, "fedcba9876543210");
  EXPECT_THAT(Wrong(kind, {.speaker_vectors = "0000000000000000"}), HasSubstr("by another extractor"));
  const FeatureKind none = KindOf(Store({}));
  EXPECT_EQ(none.front_end + none.speaker_space, "");
  EXPECT_EQ(none.speaker_vector_dim, 0);
}

TEST_F(FeatureKindTest, TheFirstDifferenceIsNamed) {
  EXPECT_THAT(Wrong({"low-freq-hz = 100"}, {"low-freq-hz = 20"}),
              ::testing::AllOf(HasSubstr("low-freq-hz = 100"), HasSubstr("the network takes those with 20"),
                               HasSubstr((folder_ / "store").string())));
  EXPECT_THAT(Wrong({"kind = \"fbank\""}, {"kind = \"mfcc\""}), HasSubstr("kind"));
  // What one text leaves out is as in the other by default.
  EXPECT_EQ(Wrong({"low-freq-hz = 20"}, {"dither = 0.5"}), "");
  EXPECT_THAT(Wrong({"kind = \"fbank\"\nceps = 13"}, {"kind = \"mfcc\""}), HasSubstr("kind = fbank"));
}

TEST_F(FeatureKindTest, OptionsThatChangeNothingDoNotCount) {
  const std::pair<const char*, const char*> alike[] = {
      {"kind = \"fbank\"\nceps = 13\nlpc-order = 10\ncepstral-lifter = 0", "kind = \"fbank\""},
      {"high-freq-hz = 7600", "high-freq-hz = -400"},
      {"min-pitch-hz = 60\ndelta-window = 3\nenergy-floor = 1", "kind = \"mfcc\""}};
  for (const auto& [a, b] : alike) EXPECT_EQ(Wrong({a}, {b}), "");
  const std::pair<const char*, const char*> others[] = {{"ceps = 13", "ceps = 40"},
                                                        {"kind = \"plp\"\nlpc-order = 10", "kind = \"plp\""},
                                                        {"high-freq-hz = 7000", "high-freq-hz = 0"},
                                                        {"pitch-dim = 3\nmin-pitch-hz = 60", "pitch-dim = 3"},
                                                        {"delta-order = 2\ndelta-window = 3", "delta-order = 2"},
                                                        {"use-energy = true\nenergy-floor = 1", "use-energy = true"}};
  for (const auto& [a, b] : others) EXPECT_NE(Wrong({a}, {b}), "") << a;
}

TEST_F(FeatureKindTest, NormalisationCountsWhereBothSayIt) {
  EXPECT_EQ(Wrong({.normalisation = "mean"}, {.normalisation = "mean"}), "");
  EXPECT_EQ(Wrong({.normalisation = "mean"}, {}), "");
  EXPECT_THAT(Wrong({.normalisation = "none"}, {.normalisation = "mean"}), HasSubstr("with --cmvn"));
  EXPECT_THAT(Wrong({.normalisation = "mean"}, {.normalisation = "none"}), HasSubstr("without --cmvn"));
}

TEST_F(FeatureKindTest, ASpeakersSpaceCountsToo) {
  const std::string text = "low-freq-hz = 20";
  EXPECT_EQ(Wrong({text, "a"}, {text, "a"}), "");
  EXPECT_THAT(Wrong({text, "a"}, {text}), HasSubstr("takes plain ones"));
  EXPECT_THAT(Wrong({text}, {text, "a"}), HasSubstr("holds plain features"));
  EXPECT_THAT(Wrong({text, "b"}, {text, "a"}), HasSubstr("in the space of another speaker model"));
}

TEST_F(FeatureKindTest, WhatNobodyNotedDownFitsEverything) {
  EXPECT_EQ(Wrong({}, {"low-freq-hz = 20", "a"}), "");
  EXPECT_EQ(Wrong({"low-freq-hz = 100", "a"}, {}), "");
}

TEST_F(FeatureKindTest, SpacesOfEqualTransformsAreEqual) {
  Matrix matrix(2, 7);
  matrix(0, 0) = matrix(1, 1) = 1;
  const std::string space = SpeakerSpace({1, 1, matrix});
  EXPECT_EQ(SpeakerSpace({1, 1, matrix}), space);
  EXPECT_NE(SpeakerSpace({2, 0, matrix}), space);
  matrix(1, 6) = 1e-3f;
  EXPECT_NE(SpeakerSpace({1, 1, matrix}), space);
}

TEST_F(FeatureKindTest, ANetworkKeepsTheFrontEndOfItsStore) {
  const std::string text = "kind = \"fbank\"\nmel-bins = 40\n";
  const auto said = [](const std::string& toml) { return toml.empty() ? "" : Config::Parse(toml, "said").ToToml(); };
  EXPECT_EQ(said(FrontEndFor(Store({text}), "", false)), said(text));
  EXPECT_EQ(FrontEndFor(Store({text, "a"}), "", false), "");
  EXPECT_EQ(said(FrontEndFor(Store({text, "a"}), "", true)), said(text));
  const std::string file = (folder_ / "front_end.toml").string();
  WriteFileAtomically(file, "kind = \"fbank\"\nmel-bins = 40\nlow-freq-hz = 100\n");
  EXPECT_THROW(FrontEndFor(Store({text}), file, false), InputError);
  EXPECT_EQ(FrontEndFor(Store({}), file, false), ReadFile(file));
  WriteFileAtomically(file, "kind = \"fbank\"\nmel-bins = 23\n");
  EXPECT_THROW(FrontEndFor(Store({}), file, false), InputError);
}

}  // namespace
}  // namespace antiphon::data
