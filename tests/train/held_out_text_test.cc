// What a model says of the speech that its training held out.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "train/evaluate.h"

namespace antiphon::train {
namespace {

TEST(HeldOutText, IsReadAsItWasWritten) {
  const HeldOutOptions options{.by = HeldOutUnit::kUtterance, .fraction = 0.03};
  const auto read = ParseHeldOutText(HeldOutText(options, 1234567890123));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->options.by, HeldOutUnit::kUtterance);
  EXPECT_EQ(read->options.fraction, 0.03);
  EXPECT_EQ(read->seed, 1234567890123u);
  for (const char* other : {"", "by = utterance", "by = nobody, fraction = 0.03, seed = 1",
                            "by = utterance, fraction = 3, seed = 1", "by = utterance, fraction = 1e999, seed = 1",
                            "by = utterance, fraction = 0.03, seed = 9999999999999999999999"}) {
    EXPECT_FALSE(ParseHeldOutText(other)) << other;
  }
}

TEST(HeldOutText, IsFoundUnderItsKeyOnly) {
  const HeldOutOptions options{.by = HeldOutUnit::kUtterance, .fraction = 0.03};
  const std::string key = HeldOutKey(7);
  const std::map<std::string, std::string> said = {{"held_out", HeldOutText(options, 5)},
                                                   {key, HeldOutText(options, 6)}};
  EXPECT_EQ(FindHeldOut(said)->seed, 5u);
  EXPECT_EQ(FindHeldOut(said, key)->seed, 6u);
  EXPECT_FALSE(FindHeldOut(said, HeldOutKey(8)));
  EXPECT_FALSE(FindHeldOut({{"held_out", "a store of its own"}}));
}

}  // namespace
}  // namespace antiphon::train
