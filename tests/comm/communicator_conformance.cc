// The cases of the conformance suite. Several carriers have ranks in other processes: expectations stand inside the
// body, and nothing is shared between ranks but messages.
#include "comm/communicator_conformance.h"

#include <cmath>

#include "base/error.h"

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

TEST_P(CommunicatorConformance, AllReduceGivesEveryRankTheBitsOfTheFixedTree) {
  const std::vector<float> expected = TreeSum(GetParam().size, 37);
  Run([&](Communicator& comm) {
    std::vector<float> values = Contribution(comm.rank(), 37);
    comm.AllReduce(values);
    EXPECT_EQ(values, expected) << "rank " << comm.rank();
  });
}

TEST_P(CommunicatorConformance, LongSumsHaveTheBitsOfTheFixedTreeToo) {
  Run([&](Communicator& comm) {
    for (const size_t size : {20000, 30001, 17000}) {
      std::vector<float> values = Contribution(comm.rank(), size);
      double sent = static_cast<double>(-comm.bytes_sent());
      comm.AllReduce(values);
      sent += static_cast<double>(comm.bytes_sent());
      EXPECT_EQ(values, TreeSum(comm.world_size(), size)) << "rank " << comm.rank();
      comm.AllReduce(std::span<double>(&sent, 1));
      // All values of all ranks but one go to where they are added, and as many sums back; more where ranks that add
      // first are no whole block of the tree.
      const double least = 2.0 * (comm.world_size() - 1) * static_cast<double>(size * sizeof(float));
      EXPECT_GE(sent, least);
      EXPECT_LE(sent, 1.5 * least);
    }
  });
}

TEST_P(CommunicatorConformance, LongSumsInDoubleAndBroadcastsKeepTheirBits) {
  constexpr size_t kSize = 20001;
  Run([&](Communicator& comm) {
    const std::vector<float> mine = Contribution(comm.rank(), kSize);
    std::vector<double> sum(mine.begin(), mine.end());
    comm.AllReduce(std::span<double>(sum));
    std::vector<double> exact(kSize, 0.0);
    for (int r = 0; r < comm.world_size(); ++r) {
      const std::vector<float> theirs = Contribution(r, kSize);
      for (size_t i = 0; i < kSize; ++i) exact[i] += static_cast<double>(theirs[i]);
    }
    for (size_t i = 0; i < kSize; ++i) ASSERT_NEAR(sum[i], exact[i], 1e-12);
    std::vector<float> values = mine;
    for (int root = 0; root < comm.world_size(); ++root) {
      if (comm.rank() == root) values = mine;
      comm.Broadcast(root, values);
      EXPECT_EQ(values, Contribution(root, kSize)) << "rank " << comm.rank() << ", root " << root;
    }
  });
}

TEST_P(CommunicatorConformance, ReduceScatterThenAllGatherEqualsAllReduce) {
  const std::vector<float> expected = TreeSum(GetParam().size, 37);
  Run([&](Communicator& comm) {
    std::vector<float> values = Contribution(comm.rank(), 37);
    comm.ReduceScatter(values);
    comm.AllGatherParts(values);
    EXPECT_EQ(values, expected) << "rank " << comm.rank();
  });
}

TEST_P(CommunicatorConformance, BroadcastReduceAndGatherReachEveryRootAndRank) {
  Run([&](Communicator& comm) {
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

TEST_P(CommunicatorConformance, AccumulationsLoseNothing) {
  constexpr int kTimes = 40;
  Run([&](Communicator& comm) {
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

// Three ranks in three processes, where there are as many: what one did to the second is there when the third has come
// through a collective operation with it, although that brought no message from the one to the other.
TEST_P(CommunicatorConformance, ACollectiveBringsAccumulationsIntoPlace) {
  constexpr int kTimes = 3;
  constexpr size_t kLong = 1 << 23;  // long enough for a later short message to overtake it
  Run([&](Communicator& comm) {
    const int writer = comm.world_size() / 2;
    const int owner = comm.world_size() - 1;
    std::vector<float> memory(comm.rank() == owner ? kLong : 0, 0.0f);
    comm.OpenWindow(1, memory);
    const std::vector<float> ones(comm.rank() == writer ? kLong : 0, 1.0f);
    for (int i = 1; i <= kTimes; ++i) {
      if (comm.rank() == writer) comm.Accumulate(owner, 1, 0, 1.0f, ones);
      comm.Barrier();
      if (comm.rank() == 0) {
        float last = 0;
        comm.Get(owner, 1, kLong - 1, std::span<float>(&last, 1));
        EXPECT_EQ(last, static_cast<float>(i));
      }
      comm.Barrier();
    }
    comm.CloseWindow(1);
  });
}

TEST_P(CommunicatorConformance, MessagesOfOnePairAndTagKeepTheirOrder) {
  Run([&](Communicator& comm) {
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

TEST_P(CommunicatorConformance, ReceivingFromAnyRankTakesEachMessageOnce) {
  Run([&](Communicator& comm) {
    const auto mine = static_cast<std::byte>(comm.rank() + 1);
    comm.Send(0, 5, {&mine, 1});
    if (comm.rank() != 0) return;
    std::vector<int> times(static_cast<size_t>(comm.world_size()));
    for (int i = 0; i < comm.world_size(); ++i) {
      const Message message = comm.Receive(Communicator::kAnySource, 5);
      EXPECT_EQ(message.bytes.at(0), static_cast<std::byte>(message.source + 1));
      ++times[static_cast<size_t>(message.source)];
    }
    EXPECT_EQ(times, std::vector<int>(times.size(), 1));
    EXPECT_FALSE(comm.Poll(Communicator::kAnySource, 5));
  });
}

TEST_P(CommunicatorConformance, LargeAndEmptyMessagesArriveWhole) {
  Run([&](Communicator& comm) {
    std::vector<float> large(comm.rank() == 0 ? 300001 : 0);
    for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<float>(i % 1009);
    const int last = comm.world_size() - 1;
    if (comm.rank() == 0) {
      comm.Send(last, 1, std::as_bytes(std::span(large)));
      comm.Send(last, 1, {});
      large.assign(large.size(), -1.0f);  // buffered: what was sent stays
    }
    if (comm.rank() != last) return;
    const Message message = comm.Receive(0, 1);
    ASSERT_EQ(message.bytes.size(), 300001 * sizeof(float));
    const float* values = reinterpret_cast<const float*>(message.bytes.data());
    for (size_t i = 0; i < 300001; ++i) ASSERT_EQ(values[i], static_cast<float>(i % 1009));
    EXPECT_TRUE(comm.Receive(0, 1).bytes.empty());
  });
}

// Long messages may travel in pieces (64,000 bytes with their envelope of 64 each), which nothing may overtake.
TEST_P(CommunicatorConformance, LongAndShortMessagesKeepTheirOrder) {
  constexpr size_t kSizes[] = {300'000, 3, 63'936, 63'928, 63'944, 0, 128'000 - 64, 1'000'001, 63'937};
  Run([&](Communicator& comm) {
    const auto byte = [](int from, size_t message, size_t i) {
      return static_cast<std::byte>(static_cast<size_t>(from) * 31 + message * 7 + i % 251);
    };
    for (int r = 0; r < comm.world_size(); ++r) {
      for (size_t m = 0; m < std::size(kSizes); ++m) {
        std::vector<std::byte> bytes(kSizes[m]);
        for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte(comm.rank(), m, i);
        comm.Send(r, 5, bytes);
      }
    }
    for (int r = 0; r < comm.world_size(); ++r) {
      for (size_t m = 0; m < std::size(kSizes); ++m) {
        const std::vector<std::byte> bytes = comm.Receive(r, 5).bytes;
        ASSERT_EQ(bytes.size(), kSizes[m]) << "message " << m << " from rank " << r;
        size_t wrong = 0;
        for (size_t i = 0; i < bytes.size(); ++i) wrong += bytes[i] != byte(r, m, i) ? 1 : 0;
        EXPECT_EQ(wrong, 0u) << "message " << m << " from rank " << r;
      }
    }
  });
}

TEST_P(CommunicatorConformance, GetReadsWhatItsOwnerWrote) {
  Run([&](Communicator& comm) {
    std::vector<float> memory(7, static_cast<float>(comm.rank()));
    comm.OpenWindow(3, memory);
    for (int r = 0; r < comm.world_size(); ++r) {
      std::vector<float> seen(5);
      comm.Get(r, 3, 2, seen);
      EXPECT_EQ(seen, std::vector<float>(5, static_cast<float>(r)));
    }
    comm.CloseWindow(3);
  });
}

TEST_P(CommunicatorConformance, ADeadlineNamesRankOperationPeerAndStep) {
  Run([&](Communicator& comm) {
    comm.set_deadline_seconds(0.01);
    comm.SetStep(17);
    try {
      comm.Receive(0, 3);
      ADD_FAILURE() << "expected PeerError";
    } catch (const PeerError& e) {
      // Between processes it goes on with what may have happened to that rank.
      const std::string expected = "rank " + std::to_string(comm.rank()) + " of " + std::to_string(comm.world_size()) +
                                   ", receiving from rank 0, step 17: no message within 0.01 s";
      EXPECT_EQ(std::string(e.what()).substr(0, expected.size()), expected);
    }
    comm.set_deadline_seconds(60);
    comm.Barrier();
  });
}

TEST_P(CommunicatorConformance, AFailingRankWakesAllOthers) {
  const int failing = GetParam().size - 1;
  try {
    Run([&](Communicator& comm) {
      if (comm.rank() == failing) throw InputError("no such shard");
      comm.Barrier();
      ADD_FAILURE() << "rank " << comm.rank() << " passed a barrier that one rank never entered";
    });
    ADD_FAILURE() << "expected an error";
  } catch (const Error& e) {
    // The failing rank's process sees its own error, the others what it told them.
    EXPECT_NE(std::string(e.what()).find("no such shard"), std::string::npos) << e.what();
  }
}

TEST_P(CommunicatorConformance, RanksThatDisagreeOnTheSizeAreRefused) {
  if (GetParam().size == 1) return;
  EXPECT_THROW(Run([&](Communicator& comm) {
                 std::vector<float> values(comm.rank() == 0 ? 4 : 5);
                 comm.AllReduce(values);
               }),
               Error);
}

}  // namespace
}  // namespace antiphon::comm
