// Averaging workers when one is lost at any message around an exchange: its block is either in the common model, or
// comes back to be learned by others, never both. Rates, momentum and elasticity become those of the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

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

using Models = std::vector<std::vector<float>>;

// Exchanges as the methods' papers have them, in place. `before`: how many workers there were when their steps began,
// `workers`: how many there are.
struct ExchangeByHand {
  const char* method;
  double rate_per_worker;  // 0: the rate is the same for any number
  std::function<void(Models& models, std::vector<float>& common, std::vector<float>& momentum, int before, int workers)>
      exchange;
  friend std::ostream& operator<<(std::ostream& out, const ExchangeByHand& by_hand) { return out << by_hand.method; }
};

float Mean(const Models& models, size_t i) {
  double sum = 0;
  for (const std::vector<float>& model : models) sum += static_cast<double>(model[i]);
  return static_cast<float>(sum / static_cast<double>(models.size()));
}

const ExchangeByHand kByHand[] = {
    {"method = \"averaging\"\nrate-scaling = \"linear\"\nwarmup-epochs = 0\n", 0.1,
     [](Models& models, std::vector<float>& common, std::vector<float>&, int, int) {
       for (size_t i = 0; i < common.size(); ++i) common[i] = Mean(models, i);
       std::fill(models.begin(), models.end(), common);
     }},
    {"method = \"bmuf\"\nnesterov = false\nrate-scaling = \"none\"\n", 0,
     [](Models& models, std::vector<float>& common, std::vector<float>& momentum, int, int workers) {
       const float eta = 1 - 1 / static_cast<float>(workers);
       for (size_t i = 0; i < common.size(); ++i) {
         momentum[i] = eta * momentum[i] + Mean(models, i) - common[i];
         common[i] += momentum[i];
       }
       std::fill(models.begin(), models.end(), common);
     }},
    {"method = \"easgd\"\nelasticity = 0.9\nrate-scaling = \"none\"\n", 0,
     [](Models& models, std::vector<float>& common, std::vector<float>&, int before, int) {
       const float alpha = 0.9F / static_cast<float>(before);
       for (size_t i = 0; i < common.size(); ++i) {
         float pull = 0;
         for (std::vector<float>& model : models) {
           const float mine = alpha * (model[i] - common[i]);
           model[i] -= mine;
           pull += mine;
         }
         common[i] += pull;
       }
     }}};

// The models of all but the last worker, which is lost in the exchange that ends the second block. Unless they `know`,
// the others' settings stay those of all workers.
Models LearnedByHand(const RunWithALoss& run, const ExchangeByHand& method, bool know) {
  const auto self = comm::MakeSelfCommunicator();
  std::vector<float> common = Learner("method = \"serial\"\n", *self).Values();
  std::vector<float> momentum(common.size());
  Models models(static_cast<size_t>(run.workers), common);
  for (int64_t block = 0; block < run.steps; block += kAveragedPeriod) {
    const int before = know ? static_cast<int>(models.size()) : run.workers;
    const double rate = method.rate_per_worker > 0 ? method.rate_per_worker * before : 0.1;
    for (size_t r = 0; r < models.size(); ++r) {
      Learner one("method = \"serial\"\n", *self, run.optimizer);
      std::copy(models[r].begin(), models[r].end(), one.network.values().begin());
      one.network.MarkChanged();
      for (int64_t step = block; step < block + kAveragedPeriod; ++step) {
        one.Step(Minibatch(run.MinibatchOf(step, r)), step, rate);
      }
      models[r] = one.Values();
    }
    if (block == kAveragedPeriod) models.pop_back();
    method.exchange(models, common, momentum, before, know ? static_cast<int>(models.size()) : run.workers);
  }
  return models;
}

class SettingsAfterALoss : public ::testing::TestWithParam<ExchangeByHand> {};

TEST_P(SettingsAfterALoss, AreThoseOfTheWorkersThatAreLeft) {
  constexpr double kRounding = 1e-6;
  const RunWithALoss run = {.steps = 3 * kAveragedPeriod,
                            .fatal_step = kAveragedPeriod + 1,
                            .parallel = std::string(GetParam().method) + "sync-period = 2\n",
                            .optimizer = "type = \"sgd\"\n"};
  const AfterALoss outcome = LoseAtMessage(run, static_cast<size_t>(run.workers) - 1, 0);
  ASSERT_TRUE(outcome.lost);
  const Models expected = LearnedByHand(run, GetParam(), true), unaware = LearnedByHand(run, GetParam(), false);
  for (size_t r = 0; r < expected.size(); ++r) {
    EXPECT_EQ(outcome.first_without[r], kAveragedPeriod);
    EXPECT_LT(LargestDifference(outcome.values[r], expected[r]), kRounding) << r;
    EXPECT_GT(LargestDifference(unaware[r], expected[r]), 10 * kRounding) << r;
  }
}
INSTANTIATE_TEST_SUITE_P(Methods, SettingsAfterALoss, ::testing::ValuesIn(kByHand), [](const auto& test) {
  const std::string text = test.param.method;
  return text.substr(10, text.find('"', 10) - 10);
});

}  // namespace
}  // namespace antiphon::parallel
