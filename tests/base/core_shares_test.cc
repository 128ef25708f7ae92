#include "base/core_shares.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

namespace antiphon {
namespace {

TEST(CoreShares, GoToWhoIsLeft) {
  const ComputeThreadsScope before(7);
  CoreShares cores(5);
  {
    std::optional<CoreShares::Part> first(std::in_place, cores);
    EXPECT_EQ(ComputeThreads(), 5);
    std::optional<CoreShares::Part> second(std::in_place, cores);
    EXPECT_EQ(ComputeThreads(), 2);
    first->Update();
    EXPECT_EQ(ComputeThreads(), 3) << "who began first has what is left over";
    std::optional<CoreShares::Part> third(std::in_place, cores);
    second->Update();
    EXPECT_EQ(ComputeThreads(), 2);
    third->Update();
    EXPECT_EQ(ComputeThreads(), 1);
    third.reset();
    second.reset();
    first->Update();
    EXPECT_EQ(ComputeThreads(), 5) << "the others are through";
  }
  EXPECT_EQ(ComputeThreads(), 7);
}

TEST(CoreShares, AreOneAtLeast) {
  CoreShares cores(2);
  const CoreShares::Part first(cores), second(cores);
  CoreShares::Part third(cores);
  third.Update();
  EXPECT_EQ(ComputeThreads(), 1);
  CoreShares none(0);
  const CoreShares::Part alone(none);
  EXPECT_EQ(ComputeThreads(), 1);
}

}  // namespace
}  // namespace antiphon
