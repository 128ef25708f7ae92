#include "train/step_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"
#include "temporary_folder.h"

namespace antiphon::train {
namespace {

using data::MinibatchId;

TEST(StepOrder, GivesBackWhatLostWorkersTookAtRisk) {
  StepOrder order;
  int64_t next = 0;
  for (int step = 0; step < 3; ++step) next = order.Take(0, next, 100, 4);  // 0 … 11
  EXPECT_EQ(next, 12);
  EXPECT_EQ(order.GiveBack(std::vector{1, 3}, 2), (std::vector<MinibatchId>{{0, 5}, {0, 7}, {0, 9}, {0, 11}}));
  EXPECT_EQ(order.returned(), (std::vector<MinibatchId>{{0, 5}, {0, 7}, {0, 9}, {0, 11}}));
  // They come first, in the hands of the two that are left.
  next = order.Take(0, next, 100, 2);
  EXPECT_EQ(next, 12);
  EXPECT_EQ(order.returned(), (std::vector<MinibatchId>{{0, 9}, {0, 11}}));
  EXPECT_EQ(order.Take(0, order.Take(0, next, 100, 2), 100, 2), 14);
}

TEST(StepOrder, WhatIsInTheCommonModelStaysThere) {
  StepOrder order;
  const int64_t next = order.Take(0, 0, 100, 3);
  order.Settle(0);
  EXPECT_TRUE(order.GiveBack(std::vector{2}, 0).empty());
  EXPECT_EQ(order.Take(0, next, 100, 2), 5);
}

TEST(StepOrder, AnEpochsEndGivesBackOnlyWhatThereWas) {
  StepOrder order;
  order.Take(3, 9, 11, 4);  // workers 2 and 3 got nothing
  EXPECT_EQ(order.GiveBack(std::vector{1, 2, 3}, 1).size(), 1u);
  EXPECT_EQ(order.returned(), (std::vector<MinibatchId>{{3, 10}}));
}

// Losses at any step, of any workers, also twice in a period: what counts is each minibatch once.
TEST(StepOrder, EveryMinibatchEndsInTheCommonModelOnce) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed);
    constexpr int64_t kMinibatches = 40;
    const auto period = static_cast<int64_t>(1 + rng.Below(5));
    int workers = 6;
    int64_t at_risk = 0;
    std::map<int64_t, int> learned;
    std::vector<std::vector<int64_t>> open(6);  // by worker, since the last exchange
    const auto exchange = [&] {
      for (auto& theirs : open) {
        for (const int64_t m : theirs) ++learned[m];
        theirs.clear();
      }
      at_risk = 0;
    };
    StepOrder order;
    int64_t next = 0;
    while (next < kMinibatches || !order.returned().empty()) {
      std::vector<int64_t> places;
      for (const MinibatchId& m : order.returned()) places.push_back(m.index);
      for (int64_t i = 0; i < workers; ++i) places.push_back(next + i);
      for (size_t w = 0; w < static_cast<size_t>(workers); ++w) {
        if (places[w] < kMinibatches) open[w].push_back(places[w]);
      }
      next = order.Take(0, next, kMinibatches, workers);
      ++at_risk;
      if (workers > 1 && rng.Below(4) == 0) {
        const auto lost = static_cast<int>(rng.Below(static_cast<uint64_t>(workers)));
        order.GiveBack(std::vector{lost}, at_risk);
        open.erase(open.begin() + lost);
        --workers;
      }
      if (at_risk >= period || next >= kMinibatches) exchange();
      order.Settle(at_risk);
    }
    exchange();
    for (int64_t m = 0; m < kMinibatches; ++m) ASSERT_EQ(learned[m], 1) << "minibatch " << m << ", seed " << seed;
  }
}

TEST(StepOrder, ComesBackFromACheckpoint) {
  const antiphon::testing::TemporaryFolder folder;
  StepOrder order;
  order.Take(1, 0, 100, 3);
  order.GiveBack(std::vector{0, 2}, 1);
  SafetensorsWriter writer;
  order.SaveState(writer);
  writer.Write(folder / "state");
  StepOrder again;
  again.LoadState(SafetensorsReader(folder / "state"));
  EXPECT_EQ(again.returned(), order.returned());
}

}  // namespace
}  // namespace antiphon::train
