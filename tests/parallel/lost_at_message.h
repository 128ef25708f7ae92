// Workers that learn in step, of which one is lost at any message of a step.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "parallel/dying_rank.h"
#include "parallel/small_learner.h"
#include "parallel/surviving_communicator.h"

namespace antiphon::parallel {

struct RunWithALoss {
  int workers = 4;
  int64_t steps = 4;
  int64_t fatal_step = 1;
  std::string parallel, optimizer;

  int64_t MinibatchOf(int64_t step, size_t rank) const { return step * workers + static_cast<int64_t>(rank); }
};

struct AfterALoss {
  std::vector<std::vector<float>> values;  // by rank; the lost one's are empty
  // By rank, when told of the loss: the first step without the lost one's frames.
  std::vector<int64_t> first_without;
  bool lost = false;
};

/// Rank `dying` is lost at its message number `messages` of the fatal step or, if it does not send so many, later.
inline AfterALoss LoseAtMessage(const RunWithALoss& run, size_t dying, int messages) {
  AfterALoss outcome;
  outcome.values.resize(static_cast<size_t>(run.workers));
  outcome.first_without.assign(static_cast<size_t>(run.workers), run.steps);
  comm::RunLosableRanks(run.workers, [&](comm::Communicator& whole) {
    const auto first = static_cast<size_t>(whole.rank());
    DiesSending dies(whole);
    SurvivingCommunicator comm(dies);
    Learner learner(run.parallel, comm, run.optimizer);
    SurvivesLosses* const survival = learner.strategy->survival();
    ASSERT_TRUE(survival != nullptr && survival->survives_losses());
    int64_t step = 0;
    comm.GoOn([&](const Loss& loss) {
      survival->AfterLoss(loss);
      const int64_t begun = std::min(step + 1, run.steps);
      outcome.first_without[first] = begun - survival->steps_at_risk();
    });
    try {
      for (; step < run.steps; ++step) {
        if (step == run.fatal_step && first == dying) dies.DieAfter(messages);
        learner.Step(Minibatch(run.MinibatchOf(step, first)), step, 0.1);
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

/// All that are left were told of the same step, and have one model; which step that was.
inline int64_t ExpectAgreement(const AfterALoss& outcome, size_t dying, int messages) {
  const size_t any = dying == 0 ? 1 : 0;
  for (size_t r = 0; r < outcome.values.size(); ++r) {
    if (r == dying) continue;
    EXPECT_EQ(outcome.first_without[r], outcome.first_without[any]) << messages;
    EXPECT_EQ(outcome.values[r], outcome.values[any]) << messages;
  }
  return outcome.first_without[any];
}

}  // namespace antiphon::parallel
