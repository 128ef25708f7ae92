// Training goes on when ranks are lost: what the survivors agree on, and which minibatches they learn.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <thread>

#include "comm/rank_threads.h"
#include "dying_rank.h"
#include "parallel/incoming_letters.h"
#include "parallel/server_pool.h"
#include "parallel/surviving_communicator.h"
#include "small_learner.h"

namespace antiphon::parallel {
namespace {

constexpr int kRanks = 4;

// Runs body on ranks as threads, of which some may throw RankLost.
void OnLosableRanks(int workers, const std::function<void(SurvivingCommunicator&)>& body) {
  comm::RunLosableRanks(workers, [&](comm::Communicator& whole) {
    SurvivingCommunicator comm(whole);
    comm.set_deadline_seconds(60);
    body(comm);
  });
}

TEST(Survival, SumsGoOnWithThoseThatAreLeft) {
  std::vector<std::vector<float>> sums(kRanks);
  std::vector<Loss> told(kRanks);
  OnLosableRanks(kRanks, [&](SurvivingCommunicator& comm) {
    const auto first = static_cast<size_t>(comm.rank());
    comm.GoOn([&](const Loss& loss) { told[first] = loss; });
    for (int round = 0; round < 6; ++round) {
      if (round == 3 && first == 2) throw comm::RankLost("killed");
      std::vector<float> value = {static_cast<float>(1 << first)};
      comm.Together(std::span(value), [&] { comm.AllReduce(std::span(value)); });
      sums[first].push_back(value[0]);
    }
    EXPECT_EQ(comm.world_size(), kRanks - 1);
    EXPECT_EQ(comm.rank(), first == 3 ? 2 : static_cast<int>(first));
  });
  for (const size_t r : {0, 1, 3}) {
    EXPECT_EQ(sums[r], (std::vector<float>{15, 15, 15, 11, 11, 11})) << r;
    EXPECT_EQ(told[r].ranks, std::vector<int>{2});
    EXPECT_EQ(told[r].world_size, kRanks);
  }
}

// A message to rank 0 and back; none where losses are not survived.
TEST(Survival, AVoteIsASmallMessageOfEachToTheFirstAndBack) {
  constexpr int64_t kSmall = 100;
  OnLosableRanks(kRanks, [&](SurvivingCommunicator& comm) {
    const auto sent = [&] {
      const int64_t before = comm.bytes_sent();
      comm.Together([] {});
      return comm.bytes_sent() - before;
    };
    EXPECT_EQ(sent(), 0);
    comm.GoOn([](const Loss&) {});
    const int64_t messages = comm.rank() == 0 ? kRanks - 1 : 1;
    const int64_t bytes = sent();
    EXPECT_GT(bytes, 0);
    EXPECT_LT(bytes, kSmall * messages);
    EXPECT_EQ(bytes % messages, 0);
  });
}

TEST(Survival, TheSecondLossIsToldInTheNumbersOfTheFirst) {
  OnLosableRanks(kRanks, [&](SurvivingCommunicator& comm) {
    const int first = comm.rank();
    std::vector<Loss> losses;
    comm.GoOn([&](const Loss& loss) { losses.push_back(loss); });
    for (int round = 0; round < 6; ++round) {
      if ((round == 2 && first == 1) || (round == 4 && first == 3)) throw comm::RankLost("killed");
      comm.Together([&] { comm.Barrier(); });
    }
    ASSERT_EQ(losses.size(), 2u);
    EXPECT_EQ(losses[1].ranks, std::vector<int>{2});
    EXPECT_EQ(losses[1].first_ranks, std::vector<int>{3});
    EXPECT_EQ(comm.world_size(), 2);
  });
}

TEST(Survival, WhoeverGivesUpTakesAllWithHim) {
  EXPECT_THROW(OnLosableRanks(kRanks,
                              [&](SurvivingCommunicator& comm) {
                                comm.GoOn([](const Loss&) {});
                                if (comm.rank() == 3) throw comm::RankLost("killed");
                                if (comm.rank() == 2) {
                                  comm.GiveUp();
                                  throw comm::PeerLost("cannot go on");
                                }
                                comm.Together([&] { comm.AllReduce(std::span<float>()); });
                              }),
               comm::PeerLost);
}

// Rank 0 dies at each of its messages in turn: before, while and after it tells how a vote has ended. The sums of all
// others are the same ones, and change once. The next rank 0 may be the only one that was not told.
class LostRankZero : public ::testing::TestWithParam<int> {};
TEST_P(LostRankZero, MayBeLostAtAnyMessage) {
  constexpr int kRounds = 4;
  int changed_at_all = 0;
  for (int messages = 0;; ++messages) {
    std::vector<std::vector<float>> sums(kRanks);
    bool lost = false;
    comm::RunLosableRanks(kRanks, [&](comm::Communicator& whole) {
      DiesSending dies(whole);
      const auto first = static_cast<size_t>(whole.rank());
      if (first == 0) dies.DieAfter(messages, GetParam());
      SurvivingCommunicator comm(dies);
      comm.GoOn([](const Loss&) {});
      try {
        for (int round = 0; round < kRounds; ++round) {
          std::vector<float> value = {static_cast<float>(1 << first)};
          comm.Together(std::span(value), [&] { comm.AllReduce(std::span(value)); });
          sums[first].push_back(value[0]);
        }
        comm.Leave();
        dies.End();
      } catch (const comm::RankLost&) {
        lost = true;
        throw;
      }
    });
    if (!lost) break;
    for (const size_t r : {1, 2, 3}) {
      ASSERT_EQ(sums[r].size(), size_t{kRounds}) << messages;
      EXPECT_EQ(sums[r], sums[1]) << messages;
    }
    EXPECT_TRUE(std::is_sorted(sums[1].rbegin(), sums[1].rend())) << messages;
    for (const float sum : sums[1]) EXPECT_TRUE(sum == 15 || sum == 14) << messages;
    changed_at_all += sums[1].back() == 14 ? 1 : 0;
  }
  EXPECT_GT(changed_at_all, 10);
}
INSTANTIATE_TEST_SUITE_P(Slow, LostRankZero, ::testing::Values(-1, 1, 2));

TEST(Survival, TheNextRankZeroMayBeLostToo) {
  OnLosableRanks(kRanks, [&](SurvivingCommunicator& comm) {
    const int first = comm.rank();
    comm.GoOn([](const Loss&) {});
    for (int round = 0; round < 6; ++round) {
      if ((round == 2 && first == 0) || (round == 2 && first == 1)) throw comm::RankLost("killed");
      comm.Together([&] { comm.Barrier(); });
    }
    EXPECT_EQ(comm.world_size(), 2);
    EXPECT_EQ(comm.rank(), first - 2);
    comm.Leave();
  });
}

// What a strategy makes of a loss in the step `fatal_step` of rank `fatal_rank`; all survivors must agree.
class StrategyLoss : public ::testing::TestWithParam<const char*> {};

TEST_P(StrategyLoss, ThoseThatAreLeftKeepOneModel) {
  for (const int64_t fatal_step : {0, 5, 11}) {
    std::vector<uint64_t> hashes(kRanks, 0);
    std::vector<int> told(kRanks, 0);
    OnLosableRanks(kRanks, [&](SurvivingCommunicator& comm) {
      const auto first = static_cast<size_t>(comm.rank());
      Learner learner(GetParam(), comm, "type = \"sgd\"\nmomentum = 0.5\nnesterov = true\n");
      ASSERT_TRUE(learner.strategy->survival() != nullptr && learner.strategy->survival()->survives_losses());
      comm.GoOn([&](const Loss& loss) {
        ++told[first];
        learner.strategy->survival()->AfterLoss(loss);
      });
      comm.Together([] {});  // from here on every rank survives losses
      for (int64_t step = 0; step < 12; ++step) {
        if (first == 3 && step == fatal_step) throw comm::RankLost("killed");
        learner.Step(Minibatch(step * kRanks + comm.rank()), step);
      }
      hashes[first] = learner.End();
    });
    EXPECT_EQ(told, (std::vector<int>{1, 1, 1, 0})) << fatal_step;
    EXPECT_EQ(hashes[0], hashes[1]) << fatal_step;
    EXPECT_EQ(hashes[0], hashes[2]) << fatal_step;
  }
}
INSTANTIATE_TEST_SUITE_P(Methods, StrategyLoss,
                         ::testing::Values("method = \"ssgd\"\n", "method = \"ssgd\"\naccumulate = 3\n",
                                           "method = \"averaging\"\nsync-period = 4\n",
                                           "method = \"bmuf\"\nsync-period = 4\n",
                                           "method = \"easgd\"\nsync-period = 4\n",
                                           "method = \"eamsgd\"\nsync-period = 4\n"));

// In rounds of 12 minibatches until rank `lost` is lost in its step `fatal_step`, whenever it gets to it. Who learned
// what in the last round, by rank, and what came back. Of two ranks, the other one has taken all that is left by then.
struct LastRound {
  std::vector<std::vector<int64_t>> trained = std::vector<std::vector<int64_t>>(kRanks);
  std::vector<uint64_t> hashes = std::vector<uint64_t>(kRanks, 0);
  int64_t given_back = -1;
};
LastRound LoseASlave(const std::string& options, int64_t fatal_step, size_t lost = 3, int ranks = kRanks) {
  LastRound last;
  std::atomic<bool> nothing_left = false;
  OnLosableRanks(ranks, [&](SurvivingCommunicator& comm) {
    const auto first = static_cast<size_t>(comm.rank());
    Learner learner("max-staleness = -1\n" + options, comm);
    comm.GoOn([&](const Loss& loss) {
      const int64_t count = learner.strategy->survival()->AfterLoss(loss);
      if (comm.rank() == 0) last.given_back = count;
    });
    int64_t steps = 0;
    while (comm.world_size() == ranks) {
      last.trained[first].clear();
      std::pair<int64_t, int64_t> left(0, 1);
      while (left.second > 0) {
        if (first == 0) nothing_left = false;
        learner.strategy->rounds()->BeginRound(left.first, 12);
        while (const auto m = learner.strategy->rounds()->Take()) {
          if (first == lost && steps++ == fatal_step) {
            while (ranks == 2 && !nothing_left) std::this_thread::yield();
            throw comm::RankLost("killed");
          }
          learner.Step(Minibatch(*m), *m, 0.3, *m);
          last.trained[first].push_back(*m);
        }
        if (first == 0) nothing_left = true;
        left = learner.strategy->rounds()->EndRound();
      }
    }
    last.hashes[first] = learner.network.Hash();
  });
  return last;
}

constexpr const char* kTwoServers = "method = \"asgd\"\nservers = 2\n";

TEST(ServerPool, ALostSlavesMinibatchesAreLearnedByOthers) {
  for (const char* options : {"", "staleness-bound = 2\n", "push-every = 1\n"}) {
    for (const int64_t fatal_step : {0, 1, 4}) {
      const LastRound last = LoseASlave(kTwoServers + std::string(options), fatal_step);
      std::multiset<int64_t> others;
      for (const size_t r : {0, 1, 2}) others.insert(last.trained[r].begin(), last.trained[r].end());
      // What the lost slave's pushes had brought to all servers, and only that, need not be learned again.
      for (int64_t m = 0; m < 12; ++m) {
        const std::vector<int64_t>& lost = last.trained[3];
        const bool by_lost = std::find(lost.begin(), lost.end(), m) != lost.end();
        EXPECT_LE(others.count(m), 1u) << m << " " << options << fatal_step;
        EXPECT_TRUE(by_lost || others.contains(m)) << m << " " << options << fatal_step;
      }
      EXPECT_GE(last.given_back, 1) << options << fatal_step;  // the one that it died with
      EXPECT_EQ(last.hashes[0], last.hashes[1]);
      EXPECT_EQ(last.hashes[0], last.hashes[2]);
    }
  }
}

// The servers, of whom one keeps the list of minibatches, are the last two ranks, and move up by one.
TEST(ServerPool, DedicatedServersGoOnWithoutALostSlave) {
  for (const std::string options : {"dedicated-servers = true\n", "dedicated-servers = true\noverlap = true\n"}) {
    const LastRound last = LoseASlave(kTwoServers + options, 1, 1);
    for (int64_t m = 0; m < 12; ++m) {
      const std::vector<int64_t>& lost = last.trained[1];
      const std::vector<int64_t>& left = last.trained[0];
      EXPECT_LE(std::count(left.begin(), left.end(), m), 1) << m;
      EXPECT_GE(std::count(left.begin(), left.end(), m) + std::count(lost.begin(), lost.end(), m), 1) << m;
    }
    EXPECT_GE(last.given_back, 1) << options;
    EXPECT_EQ(last.hashes[0], last.hashes[2]);
    EXPECT_EQ(last.hashes[0], last.hashes[3]);
  }
}

TEST(ServerPool, WhoIsLeftAloneLearnsWhatTheOtherHad) {
  for (const std::string options : {"method = \"asgd\"\nservers = 1\n", "method = \"host-master\"\n",
                                    "method = \"asgd\"\nservers = 1\noverlap = true\n"}) {
    const LastRound last = LoseASlave(options, 1, 1, 2);
    for (int64_t m = 0; m < 12; ++m) {
      const std::vector<int64_t>& lost = last.trained[1];
      const std::vector<int64_t>& left = last.trained[0];
      EXPECT_LE(std::count(left.begin(), left.end(), m), 1) << m << " " << options;
      EXPECT_GE(std::count(left.begin(), left.end(), m) + std::count(lost.begin(), lost.end(), m), 1)
          << m << " " << options;
    }
    EXPECT_GE(last.given_back, 1) << options;
  }
}

// Its head comes behind the news of its loss. In the next round nobody has its number.
TEST(ServerPool, WhatALostSlaveBeganToSayIsForgotten) {
  std::atomic<bool> asked = false, served = false;
  std::vector<int64_t> learned;
  OnLosableRanks(2, [&](SurvivingCommunicator& comm) {
    std::vector<float> model(7, 1.0f);
    ServerPoolOptions options;
    options.servers = 1;
    options.staleness_bound = 0;  // whose judgement is held until all ask for one
    ServerPool pool(comm, options, model);
    comm.GoOn([](const Loss&) {});
    pool.BeginRound(0, 4, model);
    std::optional<int64_t> minibatch = pool.Take();
    if (comm.rank() == 1) {
      const std::span<const std::byte> payload = std::as_bytes(std::span(&*minibatch, 1));
      const PoolLetterHead head{static_cast<int64_t>(PoolLetterKind::kJudge), 0, 0, std::ssize(payload)};
      const std::span<const std::byte> bytes = std::as_bytes(std::span(&head, 1));
      comm.Send(0, IncomingLetters::kHeadTag, bytes);
      comm.Send(0, IncomingLetters::kPayloadTag, payload);
      asked = true;
      while (!served) std::this_thread::yield();
      comm.Send(0, IncomingLetters::kHeadTag, bytes);
      throw comm::RankLost("killed");
    }
    while (!asked) pool.Serve();
    pool.Serve();
    served = true;
    while (comm.losses()->LostRanks().empty()) std::this_thread::yield();
    const auto learn = [&] {
      for (; minibatch; minibatch = pool.Take()) {
        EXPECT_TRUE(pool.Judge({&*minibatch, 1}).apply);
        pool.PushChange(model);
        pool.Pull(model);
        pool.Serve();
        learned.push_back(*minibatch);
      }
      pool.EndRound();
    };
    learn();
    EXPECT_EQ(comm.world_size(), 1);
    pool.BeginRound(4, 6, model);
    minibatch = pool.Take();
    learn();
  });
  std::sort(learned.begin(), learned.end());
  EXPECT_EQ(learned, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
}

TEST(ServerPool, ALostServerEndsTheRun) {
  EXPECT_THROW(OnLosableRanks(kRanks,
                              [&](SurvivingCommunicator& comm) {
                                Learner learner("method = \"asgd\"\nservers = 2\n", comm);
                                comm.GoOn([&](const Loss& loss) { learner.strategy->survival()->AfterLoss(loss); });
                                try {
                                  learner.strategy->rounds()->BeginRound(0, 40);
                                  while (const auto m = learner.strategy->rounds()->Take()) {
                                    if (comm.rank() == 1) throw comm::RankLost("killed");
                                    learner.Step(Minibatch(*m), *m, 0.3, *m);
                                  }
                                  learner.strategy->rounds()->EndRound();
                                } catch (const comm::RankLost&) {
                                  throw;
                                } catch (const comm::PeerLost&) {
                                  comm.GiveUp();
                                  throw;
                                }
                              }),
               comm::PeerLost);
}

}  // namespace
}  // namespace antiphon::parallel
