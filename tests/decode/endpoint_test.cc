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
