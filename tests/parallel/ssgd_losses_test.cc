// Synchronous SGD when a rank is lost at any message of a step: the others take the step at hand, with the frames of
// those that are left or of all, and never go back.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "parallel/lost_at_message.h"

namespace antiphon::parallel {
namespace {

// One worker with the minibatches of all that took part in each step, and a rate for their number.
std::vector<float> Joined(const RunWithALoss& run, size_t lost, int64_t first_without) {
  const auto self = comm::MakeSelfCommunicator();
  Learner one("method = \"serial\"\n", *self, run.optimizer);
  for (int64_t step = 0; step < run.steps; ++step) {
    std::vector<int64_t> numbers;
    for (size_t r = 0; r < static_cast<size_t>(run.workers); ++r) {
      if (r != lost || step < first_without) numbers.push_back(run.MinibatchOf(step, r));
    }
    one.Step(Minibatch::Joined(numbers), step, 0.1 * static_cast<double>(numbers.size()));
  }
  return one.Values();
}

class SsgdLoss : public ::testing::TestWithParam<const char*> {};

TEST_P(SsgdLoss, TheStepAtHandIsTakenWhateverWasSentOfIt) {
  const std::string codec = GetParam();
  const double rounding = codec.empty() ? 1e-6 : 3e-3;
  const RunWithALoss run = {.parallel = "method = \"ssgd\"\nrate-scaling = \"linear\"\nwarmup-epochs = 0\n" + codec,
                            .optimizer = "type = \"sgd\"\nmomentum = 0.5\n"};
  for (const size_t dying : {size_t{0}, size_t{1}, size_t{3}}) {
    std::set<int64_t> seen;
    for (int messages = 0;; ++messages) {
      const AfterALoss outcome = LoseAtMessage(run, dying, messages);
      if (!outcome.lost) break;  // it does not send so many in a run
      const int64_t first_without = ExpectAgreement(outcome, dying, messages);
      if (messages == 0) {
        EXPECT_EQ(first_without, run.fatal_step);
      }
      seen.insert(first_without);
      EXPECT_LT(LargestDifference(outcome.values[2], Joined(run, dying, first_without)), rounding) << messages;
    }
    EXPECT_EQ(seen, (std::set<int64_t>{1, 2, 3, 4}));
    for (int64_t step = run.fatal_step; step < run.steps; ++step) {
      EXPECT_GT(LargestDifference(Joined(run, dying, step), Joined(run, dying, step + 1)), 2 * rounding) << step;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Codecs, SsgdLoss, ::testing::Values("", "codec = {type = \"bf16\"}\n"));

// Workers that learn a step of three minibatches each, and one more each, which is left over when the run ends.
class SsgdLossAtTheEnd : public ::testing::Test {
 protected:
  static constexpr size_t kRanks = 4;
  static constexpr int64_t kAccumulated = 3, kAll = 4;
  static constexpr double kStepRate = 0.1;
  static constexpr const char* kOptimizer = "type = \"sgd\"\nmomentum = 0.5\n";

  static int64_t MinibatchOf(int64_t number, size_t rank) { return number * 4 + static_cast<int64_t>(rank); }

  // One worker with the minibatches of all, those left over of rank `lost` aside.
  static std::vector<float> Joined(size_t lost) {
    const auto self = comm::MakeSelfCommunicator();
    Learner one("method = \"serial\"\n", *self, kOptimizer);
    for (const auto& [first, last] : {std::pair(int64_t{0}, kAccumulated), std::pair(kAccumulated, kAll)}) {
      std::vector<int64_t> numbers;
      for (int64_t m = first; m < last; ++m) {
        for (size_t r = 0; r < kRanks; ++r) {
          if (m < kAccumulated || r != lost) numbers.push_back(MinibatchOf(m, r));
        }
      }
      one.Step(Minibatch::Joined(numbers), first, kStepRate * static_cast<double>(numbers.size()));
    }
    return one.Values();
  }

  // The models of all but rank `dying`, which is lost at its message number `messages` of the end; empty if it does not
  // send so many.
  static std::vector<std::vector<float>> Lose(size_t dying, int messages) {
    std::vector<std::vector<float>> values(kRanks);
    bool lost = false;
    comm::RunLosableRanks(kRanks, [&](comm::Communicator& whole) {
      const auto rank = static_cast<size_t>(whole.rank());
      DiesSending dies(whole);
      SurvivingCommunicator comm(dies);
      Learner learner("method = \"ssgd\"\nrate-scaling = \"linear\"\nwarmup-epochs = 0\naccumulate = 3\n", comm,
                      kOptimizer);
      comm.GoOn([&](const Loss& loss) { learner.strategy->survival()->AfterLoss(loss); });
      try {
        for (int64_t m = 0; m < kAll; ++m) learner.Step(Minibatch(MinibatchOf(m, rank)), m, kStepRate);
        if (rank == dying) dies.DieAfter(messages);
        learner.strategy->Finish();
        comm.Together([&] { comm.Barrier(); });
        comm.Leave();
      } catch (const comm::RankLost&) {
        lost = true;
        throw;
      }
      values[rank] = learner.Values();
    });
    if (!lost) return {};
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(dying));
    return values;
  }
};

TEST_F(SsgdLossAtTheEnd, CostsOfWhatIsLeftOverTheLostWorkersPartAlone) {
  const std::vector<float> of_all = Joined(kRanks);
  for (const size_t dying : {size_t{0}, size_t{2}}) {
    const std::vector<float> of_the_others = Joined(dying);
    ASSERT_GT(LargestDifference(of_all, of_the_others), 1e-4);
    int with = 0, without = 0;
    for (int messages = 0;; ++messages) {
      const auto values = Lose(dying, messages);
      if (values.empty()) break;
      for (const std::vector<float>& of_a_rank : values) EXPECT_EQ(of_a_rank, values[0]) << messages;
      // All have the whole sum already, or none takes the lost worker's part.
      const bool has_it = LargestDifference(values[0], of_all) < 1e-6;
      EXPECT_TRUE(has_it || LargestDifference(values[0], of_the_others) < 1e-6) << messages;
      ++(has_it ? with : without);
    }
    EXPECT_GT(with, 0) << dying;
    EXPECT_GT(without, 0) << dying;
  }
}

}  // namespace
}  // namespace antiphon::parallel
