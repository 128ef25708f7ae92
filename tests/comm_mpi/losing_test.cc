// Twelve ranks add numbers again and again; one process kills itself on the way. The others must go on, with the same
// twelve ranks and the same bits. For Open MPI 5: mpirun --with-ft ulfm -np 3.
#include <signal.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "comm/process_group.h"

namespace antiphon::comm {
namespace {

constexpr int kRanks = 12;
constexpr int kRounds = 40;
constexpr int kFatalRound = 17;

float Number(int rank, int round) { return std::sin(static_cast<float>(100 * round + rank)); }

// The documented tree.
float Expected(int round) {
  std::vector<float> parts;
  for (int r = 0; r < kRanks; ++r) parts.push_back(Number(r, round));
  for (size_t d = 1; d < parts.size(); d *= 2) {
    for (size_t r = 0; r + d < parts.size(); r += 2 * d) parts[r] += parts[r + d];
  }
  return parts[0];
}

void AddUp(Communicator& comm, bool dies) {
  for (int round = 0; round < kRounds; ++round) {
    if (dies && round == kFatalRound) ::raise(SIGKILL);
    float sum = Number(comm.rank(), round);
    comm.AllReduce(std::span<float>(&sum, 1));
    if (sum != Expected(round)) throw InputError("a sum has other bits");
  }
}

int Main() {
  const auto group = ProcessGroup::Join("test");
  const bool first_dies = group->num_processes() == 3 && group->process() == 1;
  for (;;) {
    try {
      group->RunRanks(kRanks, [&](Communicator& comm) { AddUp(comm, first_dies); });
      break;
    } catch (const PeerLost& e) {
      std::fprintf(stderr, "process %d: %s\n", group->process(), e.what());
      if (group->LeaveOutLostProcesses() != 1) throw InputError("one process died, another number was left out");
    }
  }
  std::printf("all sums as with all processes\n");
  return 0;
}

}  // namespace
}  // namespace antiphon::comm

int main() {
  try {
    return antiphon::comm::Main();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
