// Averaging workers when one is lost at any message around an exchange: its block is either in the common model, or
// comes back to be learned by others, never both.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "parallel/dying_rank.h"
#include "parallel/small_learner.h"
#include "parallel/surviving_communicator.h"

namespace antiphon::parallel {
namespace {

constexpr int kAveraged = 4;
constexpr int64_t kAveragedPeriod = 2;
constexpr int64_t kStepsAveraged = 3 * kAveragedPeriod;
constexpr int64_t kLastOfBlock = kAveragedPeriod + 1;  // the last one of the second block

int64_t MinibatchOf(int64_t step, size_t rank) { return step * kAveraged + static_cast<int64_t>(rank); }

struct AveragingOutcome {
  std::vector<std::vector<float>> values = std::vector<std::vector<float>>(kAveraged);
  // When told of the loss: the first step of the lost rank that came back.
  std::vector<int64_t> first_without = std::vector<int64_t>(kAveraged, kStepsAveraged);
  bool lost = false;
};

// Rank `dying` is lost at its message number `messages` of the fatal step, at whose end models are exchanged.
AveragingOutcome LoseInExchange(const std::string& method, size_t dying, int messages) {
  AveragingOutcome outcome;
  comm::RunLosableRanks(kAveraged, [&](comm::Communicator& whole) {
    const auto first = static_cast<size_t>(whole.rank());
    DiesSending dies(whole);
    SurvivingCommunicator comm(dies);
    Learner learner(method + "sync-period = 2\nrate-scaling = \"none\"\n", comm, "type = \"sgd\"\n");
    SurvivesLosses& survival = *learner.strategy->survival();
    int64_t step = 0;
    comm.GoOn([&](const Loss& loss) {
      survival.AfterLoss(loss);
      outcome.first_without[first] = std::min(step + 1, kStepsAveraged) - survival.steps_at_risk();
    });
    try {
      for (; step < kStepsAveraged; ++step) {
        if (step == kLastOfBlock && first == dying) dies.DieAfter(messages);
        learner.Step(Minibatch(MinibatchOf(step, first)), step, 0.1);
      }
      comm.Together([&] { comm.Barrier(); });
      comm.Leave();
    } catch (const comm::RankLost&) {
      outcome.lost = true;
      throw;
    }
    outcome.values[first] = learner.Values();
  });
  return outcome;
}

// Means of replicas that learn one block after the other, each alone; the lost one's while its steps count.
std::vector<float> MeanOfReplicas(size_t lost, int64_t first_without) {
  const auto self = comm::MakeSelfCommunicator();
  std::vector<float> common = Learner("method = \"serial\"\n", *self).Values();
  for (int64_t block = 0; block < kStepsAveraged; block += kAveragedPeriod) {
    std::vector<double> sum(common.size());
    int replicas = 0;
    for (size_t r = 0; r < kAveraged; ++r) {
      if (r == lost && block >= first_without) continue;
      Learner one("method = \"serial\"\n", *self, "type = \"sgd\"\n");
      std::copy(common.begin(), common.end(), one.network.values().begin());
      one.network.MarkChanged();
      for (int64_t step = block; step < block + kAveragedPeriod; ++step)
        one.Step(Minibatch(MinibatchOf(step, r)), step, 0.1);
      const std::vector<float> values = one.Values();
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(values[i]);
      ++replicas;
    }
    for (size_t i = 0; i < sum.size(); ++i) common[i] = static_cast<float>(sum[i] / replicas);
  }
  return common;
}

class AveragingLoss : public ::testing::TestWithParam<const char*> {};

TEST_P(AveragingLoss, ABlockIsInTheModelOrComesBack) {
  constexpr double kRounding = 1e-6;
  for (const size_t dying : {size_t{0}, size_t{1}, size_t{3}}) {
    std::set<int64_t> seen;
    for (int messages = 0;; ++messages) {
      const AveragingOutcome outcome = LoseInExchange(GetParam(), dying, messages);
      if (!outcome.lost) break;  // it does not send so many in a run
      const size_t any = dying == 0 ? 1 : 0;
      const int64_t first_without = outcome.first_without[any];
      seen.insert(first_without);
      const std::vector<float> expected = MeanOfReplicas(dying, first_without);
      for (size_t r = 0; r < kAveraged; ++r) {
        if (r == dying) continue;
        EXPECT_EQ(outcome.first_without[r], first_without) << messages;
        EXPECT_EQ(outcome.values[r], outcome.values[any]) << messages;
      }
      EXPECT_LT(LargestDifference(outcome.values[any], expected), kRounding) << messages;
    }
    EXPECT_EQ(seen, (std::set<int64_t>{kAveragedPeriod, 2 * kAveragedPeriod, kStepsAveraged}));
    for (int64_t block = kAveragedPeriod; block < kStepsAveraged; block += kAveragedPeriod) {
      EXPECT_GT(LargestDifference(MeanOfReplicas(dying, block), MeanOfReplicas(dying, block + kAveragedPeriod)),
                2 * kRounding)
          << block;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Methods, AveragingLoss,
                         ::testing::Values("method = \"averaging\"\n",
                                           "method = \"bmuf\"\nblock-momentum = 0\nblock-learning-rate = 1\n"));

}  // namespace
}  // namespace antiphon::parallel
