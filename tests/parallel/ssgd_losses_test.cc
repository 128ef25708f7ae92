// Synchronous SGD when a rank is lost at any message of a step: the others take the step at hand, with the frames of
// those that are left or of all, and never go back.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "parallel/dying_rank.h"
#include "parallel/small_learner.h"
#include "parallel/surviving_communicator.h"

namespace antiphon::parallel {
namespace {

constexpr int kReplicas = 4;
constexpr int64_t kSteps = 4;
constexpr int64_t kFatalStep = 1;

int64_t NumberOf(int64_t step, size_t rank) { return step * kReplicas + static_cast<int64_t>(rank); }

struct SsgdOutcome {
  std::vector<std::vector<float>> values = std::vector<std::vector<float>>(kReplicas);
  // When told of the loss: the first step without the lost rank's frames.
  std::vector<int64_t> first_without = std::vector<int64_t>(kReplicas, kSteps);
  bool lost = false;
};

// Rank `dying` is lost at its message number `messages` of the fatal step.
SsgdOutcome LoseAtMessage(const std::string& options, size_t dying, int messages) {
  SsgdOutcome outcome;
  comm::RunLosableRanks(kReplicas, [&](comm::Communicator& whole) {
    const auto first = static_cast<size_t>(whole.rank());
    DiesSending dies(whole);
    SurvivingCommunicator comm(dies);
    Learner learner("method = \"ssgd\"\nrate-scaling = \"linear\"\nwarmup-epochs = 0\n" + options, comm);
    SurvivesLosses* const survival = learner.strategy->survival();
    ASSERT_TRUE(survival != nullptr && survival->survives_losses());
    int64_t step = 0;
    comm.GoOn([&](const Loss& loss) {
      survival->AfterLoss(loss);
      const int64_t begun = std::min(step + 1, kSteps);
      outcome.first_without[first] = begun - survival->steps_at_risk();
    });
    try {
      for (; step < kSteps; ++step) {
        if (step == kFatalStep && first == dying) dies.DieAfter(messages);
        learner.Step(Minibatch(NumberOf(step, first)), step, 0.1);
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

// One worker with the minibatches of all that took part in each step, and a rate for their number.
std::vector<float> Joined(size_t lost, int64_t first_without) {
  const auto self = comm::MakeSelfCommunicator();
  Learner one("method = \"serial\"\n", *self);
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<int64_t> numbers;
    for (size_t r = 0; r < kReplicas; ++r) {
      if (r != lost || step < first_without) numbers.push_back(NumberOf(step, r));
    }
    one.Step(Minibatch::Joined(numbers), step, 0.1 * static_cast<double>(numbers.size()));
  }
  return one.Values();
}

class SsgdLoss : public ::testing::TestWithParam<const char*> {};

TEST_P(SsgdLoss, TheStepAtHandIsTakenWhateverWasSentOfIt) {
  const double rounding = std::string(GetParam()).find("codec") == std::string::npos ? 1e-6 : 3e-3;
  for (const size_t dying : {size_t{0}, size_t{1}, size_t{3}}) {
    std::set<int64_t> seen;
    for (int messages = 0;; ++messages) {
      const SsgdOutcome outcome = LoseAtMessage(GetParam(), dying, messages);
      if (!outcome.lost) break;  // it does not send so many in a run
      const size_t any = dying == 0 ? 1 : 0;
      const int64_t first_without = outcome.first_without[any];
      if (messages == 0) {
        EXPECT_EQ(first_without, kFatalStep);
      }
      seen.insert(first_without);
      const std::vector<float> expected = Joined(dying, first_without);
      for (size_t r = 0; r < kReplicas; ++r) {
        if (r == dying) continue;
        EXPECT_EQ(outcome.first_without[r], first_without) << messages;
        EXPECT_EQ(outcome.values[r], outcome.values[any]) << messages;
      }
      EXPECT_LT(LargestDifference(outcome.values[any], expected), rounding) << messages;
    }
    EXPECT_EQ(seen, (std::set<int64_t>{1, 2, 3, 4}));
    for (int64_t step = kFatalStep; step < kSteps; ++step) {
      EXPECT_GT(LargestDifference(Joined(dying, step), Joined(dying, step + 1)), 2 * rounding) << step;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Codecs, SsgdLoss, ::testing::Values("", "codec = {type = \"bf16\"}\n"));

}  // namespace
}  // namespace antiphon::parallel
