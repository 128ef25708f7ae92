// Averaging workers when one is lost at any message around an exchange: its block is either in the common model, or
// comes back to be learned by others, never both.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "parallel/lost_at_message.h"

namespace antiphon::parallel {
namespace {

constexpr int64_t kAveragedPeriod = 2;

// Means of replicas that learn one block after the other, each alone; the lost one's while its steps count.
std::vector<float> MeanOfReplicas(const RunWithALoss& run, size_t lost, int64_t first_without) {
  const auto self = comm::MakeSelfCommunicator();
  std::vector<float> common = Learner("method = \"serial\"\n", *self).Values();
  for (int64_t block = 0; block < run.steps; block += kAveragedPeriod) {
    std::vector<double> sum(common.size());
    int replicas = 0;
    for (size_t r = 0; r < static_cast<size_t>(run.workers); ++r) {
      if (r == lost && block >= first_without) continue;
      Learner one("method = \"serial\"\n", *self, run.optimizer);
      std::copy(common.begin(), common.end(), one.network.values().begin());
      one.network.MarkChanged();
      for (int64_t step = block; step < block + kAveragedPeriod; ++step) {
        one.Step(Minibatch(run.MinibatchOf(step, r)), step, 0.1);
      }
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
  const RunWithALoss run = {.steps = 3 * kAveragedPeriod,
                            .fatal_step = kAveragedPeriod + 1,  // the last one of the second block
                            .parallel = std::string(GetParam()) + "sync-period = 2\nrate-scaling = \"none\"\n",
                            .optimizer = "type = \"sgd\"\n"};
  for (const size_t dying : {size_t{0}, size_t{1}, size_t{3}}) {
    std::set<int64_t> seen;
    for (int messages = 0;; ++messages) {
      const AfterALoss outcome = LoseAtMessage(run, dying, messages);
      if (!outcome.lost) break;  // it does not send so many in a run
      const int64_t first_without = ExpectAgreement(outcome, dying, messages);
      seen.insert(first_without);
      EXPECT_LT(LargestDifference(outcome.values[2], MeanOfReplicas(run, dying, first_without)), kRounding) << messages;
    }
    EXPECT_EQ(seen, (std::set<int64_t>{kAveragedPeriod, 2 * kAveragedPeriod, run.steps}));
    for (int64_t block = kAveragedPeriod; block < run.steps; block += kAveragedPeriod) {
      EXPECT_GT(
          LargestDifference(MeanOfReplicas(run, dying, block), MeanOfReplicas(run, dying, block + kAveragedPeriod)),
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
