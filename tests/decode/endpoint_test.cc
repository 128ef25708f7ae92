#include "decode/search/endpoint.h"

#include <gtest/gtest.h>

namespace antiphon::decode {
namespace {

constexpr double kShift = 0.01;

bool Ends(int frames, int silence, double cost) {
  return IsEndpoint({frames, silence, cost}, DefaultEndpointRules(), kShift);
}

TEST(Endpoint, ComesAfterSpeechAndSilence) {
  EXPECT_FALSE(Ends(100, 0, 0.0));
  EXPECT_FALSE(Ends(100, 49, 0.0));
  EXPECT_TRUE(Ends(100, 50, 1.0));
  EXPECT_FALSE(Ends(100, 50, 5.0));  // no sentence end likely here
  EXPECT_TRUE(Ends(200, 100, 5.0));
  EXPECT_TRUE(Ends(300, 200, 1e30));
}

// Of another length, the other rules do not come first, and stay in proportion.
TEST(Endpoint, ComesAfterTheSilenceThatIsAskedFor) {
  const auto ends = [](double asked_s, double silence_s, double cost) {
    const auto silence = static_cast<int>(silence_s / kShift + 0.5);
    return IsEndpoint({silence + 100, silence, cost}, EndpointRulesFor(asked_s), kShift);
  };
  EXPECT_FALSE(ends(3.0, 1.0, 0.0));
  EXPECT_FALSE(ends(3.0, 2.9, 0.0));
  EXPECT_TRUE(ends(3.0, 3.0, 0.0));
  EXPECT_FALSE(ends(3.0, 5.9, 5.0)) << "no sentence end likely here";
  EXPECT_TRUE(ends(3.0, 6.0, 5.0));
  EXPECT_FALSE(ends(3.0, 11.9, 1e30));
  EXPECT_TRUE(ends(3.0, 12.0, 1e30));
  // Shorter silence where a sentence may end makes none elsewhere shorter.
  EXPECT_TRUE(ends(0.1, 0.1, 0.0));
  EXPECT_FALSE(ends(0.1, 0.9, 5.0));
  EXPECT_TRUE(ends(0.1, 1.0, 5.0));
  for (const double silence_s : {0.4, 0.5, 1.0, 2.0}) {
    for (const double cost : {0.0, 5.0, 1e30}) {
      EXPECT_EQ(ends(0.5, silence_s, cost),
                Ends(100 + static_cast<int>(100 * silence_s), static_cast<int>(100 * silence_s), cost));
    }
  }
}

TEST(Endpoint, WaitsLongerForSpeechToBegin) {
  EXPECT_FALSE(Ends(499, 499, 0.0));
  EXPECT_TRUE(Ends(500, 500, 0.0));
}

TEST(Endpoint, CutsEndlessSpeech) {
  EXPECT_FALSE(Ends(1999, 0, 0.0));
  EXPECT_TRUE(Ends(2000, 0, 1e30));
}

}  // namespace
}  // namespace antiphon::decode
