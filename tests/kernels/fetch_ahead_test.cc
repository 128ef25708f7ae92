#include "kernels/fetch_ahead.h"

#include <gtest/gtest.h>

#include <vector>

namespace antiphon {
namespace {

// Lines that are asked for, counted by where the object stands after each step.
std::vector<const char*> Places(FetchAhead fetch, int steps) {
  std::vector<const char*> places;
  for (int i = 0; i < steps; ++i) {
    places.push_back(fetch.at());
    fetch.Step();
  }
  places.push_back(fetch.at());
  return places;
}

TEST(FetchAhead, SpreadsLinesEvenlyAndReachesTheEnd) {
  const std::vector<char> memory(64 * 100);
  const char* const begin = memory.data();
  for (const int lines : {1, 7, 10, 11, 100}) {
    const auto places = Places(FetchAhead(begin, 64 * lines, 10), 10);
    EXPECT_GE(places.back(), begin + static_cast<ptrdiff_t>(64) * lines) << lines;
    const ptrdiff_t most = 64 * ((lines + 9) / 10);
    for (size_t i = 1; i < places.size(); ++i) EXPECT_LE(places[i] - places[i - 1], most) << lines;
  }
}

TEST(FetchAhead, SharesOfAllUsersAreTheWhole) {
  const std::vector<char> memory(64 * 100);
  const char* at = memory.data();
  for (int user = 0; user < 3; ++user) {
    const auto places = Places(FetchAhead::Share(memory.data(), 64 * 100, user, 3, 50), 50);
    EXPECT_EQ(places.front(), at);
    at = places.back();
  }
  EXPECT_GE(at, memory.data() + memory.size());
}

TEST(FetchAhead, DoesNothingWithoutMemoryOrSteps) {
  for (FetchAhead fetch : {FetchAhead(), FetchAhead(nullptr, 640, 3), FetchAhead("text", 0, 3),
                           FetchAhead("text", 640, 0), FetchAhead::Share(nullptr, 640, 1, 2, 3)}) {
    const char* const before = fetch.at();
    fetch.Step();
    EXPECT_EQ(fetch.at(), before);
  }
}

}  // namespace
}  // namespace antiphon
