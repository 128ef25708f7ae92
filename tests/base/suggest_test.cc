#include "base/suggest.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace antiphon {
namespace {

TEST(EditDistance, CountsSingleEdits) {
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("same", "same"), 0u);
}

TEST(EditDistance, IsAMetric) {
  EXPECT_TRUE(rc::check([](const std::string& a, const std::string& b, const std::string& c) {
    RC_ASSERT(EditDistance(a, b) == EditDistance(b, a));
    RC_ASSERT((EditDistance(a, b) == 0) == (a == b));
    RC_ASSERT(EditDistance(a, c) <= EditDistance(a, b) + EditDistance(b, c));
  }));
}

TEST(Nearest, SuggestsOnlyWhatIsNear) {
  EXPECT_EQ(Nearest("momentun", {"rate", "momentum"}), "momentum");
  EXPECT_EQ(Nearest("xyzzy", {"rate", "momentum"}), "");
  EXPECT_EQ(UnknownNameMessage("key", "rat", {"rate", "decay"}),
            "unknown key 'rat' (did you mean 'rate'?); known: rate, decay");
}

TEST(Nearest, ComparesWithPartsBehindADot) {
  EXPECT_EQ(Nearest("--epoch", {"--store", "--schedule.epochs"}), "--schedule.epochs");
  EXPECT_EQ(Nearest("--learnin-rate", {"--note", "--schedule.learning-rate"}), "--schedule.learning-rate");
  EXPECT_EQ(Nearest("--beams", {"--search.beam", "--beam"}), "--search.beam");
  EXPECT_EQ(Nearest("--colour", {"--schedule.epochs"}), "");
}

TEST(Nearest, NamesThreeOfMany) {
  std::vector<std::string> many = {"schedule.learning-rate", "learning", "threads"};
  for (int i = 0; i < 20; ++i) many.push_back("option-number-" + std::to_string(i));
  EXPECT_EQ(UnknownNameMessage("key", "learning-rate", many),
            "unknown key 'learning-rate' (did you mean 'schedule.learning-rate'?); nearest of 23: "
            "schedule.learning-rate, learning, threads");
  EXPECT_EQ(UnknownNameMessage("key", "thread", many),
            "unknown key 'thread' (did you mean 'threads'?); nearest of 23: threads, learning, schedule.learning-rate");
}

}  // namespace
}  // namespace antiphon
