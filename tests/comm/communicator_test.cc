// What every communicator must do; run over each way of carrying messages.
#include "comm/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>

#include "base/error.h"
#include "comm/thread_world.h"

namespace antiphon::comm {
namespace {

std::vector<float> Contribution(int rank, size_t size) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i)
    values[i] = std::sin(1.0f + 3.7f * static_cast<float>(rank) + static_cast<float>(i));
  return values;
}

// The documented tree, written down without messages.
std::vector<float> TreeSum(int world_size, size_t size) {
  std::vector<std::vector<float>> parts;
  for (int r = 0; r < world_size; ++r) parts.push_back(Contribution(r, size));
  for (size_t d = 1; d < parts.size(); d *= 2) {
    for (size_t r = 0; r + d < parts.size(); r += 2 * d) {
      for (size_t i = 0; i < size; ++i) parts[r][i] += parts[r + d][i];
    }
  }
  return parts[0];
}

class Collectives : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(WorldSizes, Collectives, testing::Values(1, 2, 3, 4, 5, 8));

TEST_P(Collectives, AllReduceGivesEveryRankTheBitsOfTheFixedTree) {
  const std::vector<float> expected = TreeSum(GetParam(), 37);
  RunRanks(GetParam(), [&](Communicator& comm) {
    std::vector<float> values = Contribution(comm.rank(), 37);
    comm.AllReduce(values);
    EXPECT_EQ(values, expected) << "rank " << comm.rank();
  });
}

TEST_P(Collectives, ReduceScatterThenAllGatherEqualsAllReduce) {
  const std::vector<float> expected = TreeSum(GetParam(), 37);
  RunRanks(GetParam(), [&](Communicator& comm) {
    std::vector<float> values = Contribution(comm.rank(), 37);
    comm.ReduceScatter(values);
    comm.AllGatherParts(values);
    EXPECT_EQ(values, expected) << "rank " << comm.rank();
  });
}

TEST_P(Collectives, BroadcastReduceAndGatherReachEveryRootAndRank) {
  RunRanks(GetParam(), [&](Communicator& comm) {
    for (int root = 0; root < comm.world_size(); ++root) {
      std::vector<float> values(5, comm.rank() == root ? 7.0f + static_cast<float>(root) : -1.0f);
      comm.Broadcast(root, values);
      EXPECT_EQ(values, std::vector<float>(5, 7.0f + static_cast<float>(root)));
      std::vector<float> sum = Contribution(comm.rank(), 9);
      comm.Reduce(root, sum);
      if (comm.rank() == root) {
        EXPECT_EQ(sum, TreeSum(comm.world_size(), 9));
      }
    }
    const auto mine = static_cast<std::byte>(comm.rank() + 1);
    const std::vector<std::byte> all = comm.AllGather({&mine, 1});
    for (int r = 0; r < comm.world_size(); ++r)
      EXPECT_EQ(all.at(static_cast<size_t>(r)), static_cast<std::byte>(r + 1));
  });
}

TEST_P(Collectives, AccumulationsLoseNothing) {
  constexpr int kTimes = 200;
  RunRanks(GetParam(), [&](Communicator& comm) {
    std::vector<float> memory(3, 0.0f);
    comm.OpenWindow(1, memory);
    const std::vector<float> ones(2, 1.0f);
    for (int i = 0; i < kTimes; ++i) comm.Accumulate(0, 1, 1, 2.0f, ones);
    comm.Barrier();
    std::vector<float> seen(3);
    comm.Get(0, 1, 0, seen);
    const float expected = 2.0f * kTimes * static_cast<float>(comm.world_size());
    EXPECT_EQ(seen, (std::vector<float>{0.0f, expected, expected}));
    comm.CloseWindow(1);
  });
}

TEST_P(Collectives, MessagesOfOnePairAndTagKeepTheirOrder) {
  RunRanks(GetParam(), [&](Communicator& comm) {
    const int next = (comm.rank() + 1) % comm.world_size();
    for (uint8_t i = 0; i < 20; ++i) {
      const std::byte bytes[] = {static_cast<std::byte>(i)};
      comm.Send(next, i % 2, bytes);
    }
    const int previous = (comm.rank() + comm.world_size() - 1) % comm.world_size();
    for (const int tag : {1, 0}) {
      for (uint8_t i = static_cast<uint8_t>(tag); i < 20; i = static_cast<uint8_t>(i + 2)) {
        EXPECT_EQ(comm.Receive(previous, tag).bytes.at(0), static_cast<std::byte>(i));
      }
    }
  });
}

TEST(Communicator, NamesRankOperationPeerAndStepWhenNobodyAnswers) {
  const auto comm = ThreadWorld(2).Connect(1);
  comm->set_deadline_seconds(0.01);
  comm->SetStep(17);
  try {
    comm->Receive(0, 3);
    FAIL() << "expected PeerError";
  } catch (const PeerError& e) {
    EXPECT_STREQ(e.what(), "rank 1 of 2, receiving from rank 0, step 17: no message within 0.01 s");
  }
}

TEST(Communicator, ADyingRankWakesTheOthersAndItsErrorIsTheOneReported) {
  std::atomic<int> woken{0};
  try {
    RunRanks(3, [&](Communicator& comm) {
      if (comm.rank() == 1) throw InputError("no such shard");
      try {
        comm.Barrier();
      } catch (const PeerError& e) {
        EXPECT_NE(std::string(e.what()).find("rank 1 failed: no such shard"), std::string::npos) << e.what();
        ++woken;
        throw;
      }
    });
    FAIL() << "expected InputError";
  } catch (const InputError& e) {
    EXPECT_EQ(std::string(e.what()).substr(0, 6), "rank 1");
  }
  EXPECT_EQ(woken, 2);
}

TEST(Communicator, RefusesRanksThatDisagreeOnTheSize) {
  EXPECT_THROW(RunRanks(2,
                        [&](Communicator& comm) {
                          std::vector<float> values(comm.rank() == 0 ? 4 : 5);
                          comm.AllReduce(values);
                        }),
               InputError);
}

}  // namespace
}  // namespace antiphon::comm
