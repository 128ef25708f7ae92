#include "train/worker_counts.h"

#include <gtest/gtest.h>

#include "comm/rank_threads.h"
#include "comm/thread_world.h"
#include "parallel/surviving_communicator.h"

namespace antiphon::train {
namespace {

// Worker w of 4 has counted 10 w frames and sent w bytes; worker 1 and then worker 3 are lost.
TEST(WorkerCounts, GoOnWhenTheirWorkersAreLost) {
  comm::RunLosableRanks(4, [](comm::Communicator& whole) {
    parallel::SurvivingCommunicator comm(whole);
    comm.set_deadline_seconds(60);
    WorkerCounts counts(comm);
    Position at;
    at.frames = 10 * comm.rank();
    at.bytes_sent = comm.rank();
    const int first = comm.rank();
    int losses = 0;
    comm.GoOn([&](const parallel::Loss& loss) {
      const WorkerCounts::Count theirs = counts.Lose(loss.ranks);
      EXPECT_EQ(theirs.frames, losses == 0 ? 10 + 5 : 30 + 7);
      EXPECT_EQ(theirs.bytes_sent, losses == 0 ? 1 : 3);
      ++losses;
    });
    EXPECT_FALSE(counts.known());
    counts.Meet(at);
    EXPECT_TRUE(counts.known());
    counts.Take(1, 5);
    if (first == 1) throw comm::RankLost("killed");
    comm.Together([&] { comm.Barrier(); });
    counts.Take(2, 7);  // that began as worker 3
    if (first == 3) throw comm::RankLost("killed");
    comm.Together([&] { comm.Barrier(); });
    EXPECT_EQ(losses, 2);
    comm.Leave();
  });
}

// What the lost worker told before is taken over once, whether it is found lost before the others met or behind it.
TEST(WorkerCounts, ALossAtTheMeetingIsTakenOverOnce) {
  comm::RunLosableRanks(3, [](comm::Communicator& whole) {
    parallel::SurvivingCommunicator comm(whole);
    comm.set_deadline_seconds(60);
    WorkerCounts counts(comm);
    Position at;
    at.frames = 100;
    const int first = comm.rank();
    comm.GoOn([&](const parallel::Loss& loss) {
      const WorkerCounts::Count theirs = counts.Lose(loss.ranks);
      if (comm.rank() == 0) at.frames += theirs.frames;
    });
    counts.Meet(at);
    if (first == 2) throw comm::RankLost("killed");
    counts.Meet(at);
    EXPECT_EQ(at.frames, first == 0 ? 200 : 100);
    const int one[] = {0};
    EXPECT_EQ(counts.Lose(one).frames, 200);
    comm.Leave();
  });
}

TEST(WorkerCounts, NobodyTellsAnythingWhereLossesAreNotSurvived) {
  comm::RunLosableRanks(2, [](comm::Communicator& whole) {
    parallel::SurvivingCommunicator comm(whole);
    WorkerCounts counts(comm);
    counts.Meet(Position());
    EXPECT_FALSE(counts.known());
    EXPECT_EQ(whole.bytes_sent(), 0);
  });
}

}  // namespace
}  // namespace antiphon::train
