// A server whose own rank takes no part in the pool for a while, on threads and over MPI.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "comm/communicator.h"
#include "parallel/server_pool.h"

namespace antiphon::parallel {

/// On all ranks: rank 0 does nothing until the others are through.
inline void ExpectServedWhileRankZeroIsBusy(comm::Communicator& comm) {
  constexpr int kFinished = 7, kAll = 8;
  const std::byte done{1};
  const int ranks = comm.world_size();
  const std::vector<float> model(10, 1.0f);
  ServerPool pool(comm, {}, model);
  pool.BeginRound(0, 2 * (ranks - 1));  // each asks for its next one at once
  if (comm.rank() == 0) {
    for (int other = 1; other < ranks; ++other) comm.Receive(other, kFinished);
    for (int other = 1; other < ranks; ++other) comm.Send(other, kAll, {&done, 1});
  } else {
    const auto minibatch = pool.Take();
    ASSERT_TRUE(minibatch.has_value());
    EXPECT_TRUE(pool.Judge(std::vector<int64_t>{*minibatch}).apply);
    pool.Push(std::vector<float>(10, 1.0f), 0);
    std::vector<float> values(10);
    pool.Pull(values);
    EXPECT_GE(values[0], 2.0f);
    comm.Send(0, kFinished, {&done, 1});
    comm.Receive(0, kAll);  // or this rank might take the minibatch of a slower one
  }
  while (const auto minibatch = pool.Take()) pool.Judge(std::vector<int64_t>{*minibatch});
  pool.EndRound();
  std::vector<float> end(10);
  pool.Collect(end);
  EXPECT_EQ(end, std::vector<float>(10, static_cast<float>(ranks)));
}

}  // namespace antiphon::parallel
