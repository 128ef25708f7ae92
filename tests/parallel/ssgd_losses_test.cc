// Synchronous SGD when a rank is lost at any message of a step: the others take the step at hand, with the frames of
// those that are left or of all, and never go back.
#include <gtest/gtest.h>

#include <set>
#include <string>

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

}  // namespace
}  // namespace antiphon::parallel
