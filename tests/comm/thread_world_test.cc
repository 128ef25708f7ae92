// Ranks as threads of one process.
#include "comm/thread_world.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/finally.h"
#include "comm/communicator_conformance.h"
#include "comm/hub.h"
#include "comm/rank_threads.h"
#include "comm/second_thread.h"
#include "without_threads.h"

namespace antiphon::comm {
namespace {

INSTANTIATE_TEST_SUITE_P(Threads, CommunicatorConformance,
                         ::testing::ValuesIn(WorldsOf("threads", &RunRanks, {1, 2, 3, 4, 5, 8})), NameOfWorld);

TEST(ThreadWorld, ADyingRankWakesTheOthersAndItsErrorIsTheOneReported) {
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

TEST(ThreadWorld, RanksWithoutThreadsAreAnErrorThatSaysSo) {
  const antiphon::testing::WithoutThreads without;
  try {
    RunRanks(3, [](Communicator&) { ADD_FAILURE() << "a rank alone would wait for ever"; });
    FAIL() << "expected IoError";
  } catch (const IoError& e) {
    EXPECT_NE(std::string(e.what()).find("0 of this process's 3 ranks got a thread"), std::string::npos) << e.what();
  }
}

// One that waited for data when somebody asked to stop, say, while the others wait for it.
TEST(ThreadWorld, ARankThatStopsAloneWakesTheOthers) {
  std::atomic<int> woken{0};
  EXPECT_THROW(
      RunRanks(3,
               [&](Communicator& comm) {
                 if (comm.rank() == 0) throw Cancelled("stopped on request while waiting for a server");
                 try {
                   comm.Barrier();
                 } catch (const PeerError& e) {
                   EXPECT_NE(std::string(e.what()).find("rank 0 failed: stopped on request"), std::string::npos)
                       << e.what();
                   ++woken;
                   throw;
                 }
               }),
      Cancelled);
  EXPECT_EQ(woken, 2);
}

// Who agreed to stop may be gone while the others still have something to do.
TEST(ThreadWorld, RanksThatAgreedToStopEndNobodyElse) {
  std::promise<void> first_gone;
  std::atomic<bool> received = false;
  EXPECT_THROW(RunRanks(3,
                        [&](Communicator& comm) {
                          const float value = 1;
                          if (comm.rank() == 0) {
                            // When its thread ends, after all that is done for an error.
                            static thread_local const Finally gone([&] { first_gone.set_value(); });
                          } else if (comm.rank() == 1) {
                            first_gone.get_future().wait();
                            comm.Send(2, 1, std::as_bytes(std::span(&value, 1)));
                          } else {
                            comm.Receive(1, 1);
                            received = true;
                          }
                          throw AgreedToStop("as agreed");
                        }),
               AgreedToStop);
  EXPECT_TRUE(received);
}

// So that every process of a run ends with the status of wrong usage, and none is started again.
TEST(ThreadWorld, ARefusalIsOneForAllRanks) {
  std::atomic<int> refused{0};
  EXPECT_THROW(RunRanks(3,
                        [&](Communicator& comm) {
                          if (comm.rank() == 1) throw UsageError("0 servers");
                          try {
                            comm.Barrier();
                          } catch (const UsageError& e) {
                            EXPECT_NE(std::string(e.what()).find("rank 1 refused: 0 servers"), std::string::npos);
                            ++refused;
                            throw;
                          }
                        }),
               UsageError);
  EXPECT_EQ(refused, 2);
  const AbortReason reason = AbortReason::FromBytes(AbortReason{"why", true}.ToBytes());
  EXPECT_TRUE(reason.refusal);
  EXPECT_EQ(reason.message, "why");
}

TEST(ThreadWorld, SumsOfSeveralPiecesOneAfterTheOther) {
  RunRanks(3, [](Communicator& comm) {
    std::vector<float> values(10'000'000);
    for (int turn = 1; turn <= 3; ++turn) {
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(turn * (comm.rank() + 1)) + static_cast<float>(i % 1000);
      }
      comm.AllReduce(values);
      size_t wrong = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        if (values[i] != static_cast<float>(6 * turn) + 3 * static_cast<float>(i % 1000)) ++wrong;
      }
      EXPECT_EQ(wrong, 0u) << "turn " << turn << ", rank " << comm.rank();
    }
  });
}

TEST(ThreadWorld, RefusesSumsOfUnequalNumbers) {
  EXPECT_THROW(RunRanks(2,
                        [](Communicator& comm) {
                          std::vector<float> values(20000 + static_cast<size_t>(comm.rank()));
                          comm.AllReduce(values);
                        }),
               InputError);
}

TEST(Hub, ALostRankWakesWhoeverWaits) {
  const auto hub = std::make_shared<Hub>(3, 0, 3);
  const auto comm = ConnectToHub(hub, 0);
  hub->MarkLost(2);
  try {
    comm->Receive(1, 0);
    FAIL() << "expected PeerLost";
  } catch (const PeerLost& e) {
    EXPECT_STREQ(e.what(), "rank 0 of 3, receiving from rank 1, step 0: rank 2 is lost");
  }
  EXPECT_EQ(comm->losses()->LostRanks(), std::vector<int>{2});
}

class NoTransport : public Transport {
 public:
  void Send(const Envelope&, std::span<const std::byte>) override {}
  void Waiting(int) override {}
  void Drain(double) override {}
};

TEST(Hub, ErrorsNameTheMachineOfTheOtherRank) {
  NoTransport transport;
  const std::vector<int> nodes = {0, 0, 2};
  const auto hub =
      std::make_shared<Hub>(3, 0, 1, &transport, 0, nodes, std::vector<std::string>{"hosta", "hosta", "hostb"});
  const auto comm = ConnectToHub(hub, 0);
  comm->set_deadline_seconds(0.01);
  const auto expect_error = [&](const std::string& expected) {
    try {
      comm->Receive(2, 0);
      ADD_FAILURE() << "expected PeerError";
    } catch (const PeerError& e) {
      EXPECT_EQ(std::string(e.what()).substr(0, expected.size()), expected);
    }
  };
  expect_error("rank 0 of 3, receiving from rank 2, step 0: no message within 0.01 s; rank 2 on 'hostb' hangs, ");
  hub->MarkLost(1);
  hub->MarkLost(2);
  expect_error("rank 0 of 3, receiving from rank 2, step 0: rank 1 on 'hosta', 2 on 'hostb' is lost");
}

// A head has come; what belongs to it comes behind it, under another tag.
TEST(Hub, TheSecondThreadHearsOfEveryMessage) {
  constexpr double kForEver = 1e6;
  const auto hub = std::make_shared<Hub>(2, 0, 2);
  const auto comm = ConnectToHub(hub, 0);
  const auto other = ConnectToHub(hub, 1);
  auto& second = dynamic_cast<SecondThread&>(*comm);
  const std::byte byte{7};
  other->Send(0, 4, {&byte, 1});
  second.AwaitNews(kForEver);
  std::thread listener([&] { second.AwaitNews(kForEver); });
  other->Send(0, 5, {&byte, 1});
  listener.join();
  comm->Receive(1, 5);
  comm->Receive(1, 4);
  second.AwaitNews(0);  // nothing
  hub->Abort({"over"});
  second.AwaitNews(kForEver);
}

TEST(Hub, WhoToleratesLossesGoesOnWithTheOthers) {
  const auto hub = std::make_shared<Hub>(3, 0, 3);
  const auto comm = ConnectToHub(hub, 0);
  const auto other = ConnectToHub(hub, 1);
  hub->MarkLost(2);
  comm->losses()->TolerateLosses(true);
  other->losses()->TolerateLosses(true);
  const std::byte byte{7};
  other->Send(0, 4, {&byte, 1});
  EXPECT_EQ(comm->Receive(Communicator::kAnySource, 4).source, 1);
  comm->Send(2, 4, {&byte, 1});  // dropped
  EXPECT_THROW(comm->Receive(2, 4), PeerLost);
}

}  // namespace
}  // namespace antiphon::comm
