// Twelve ranks add numbers again and again; one process kills itself on the way. The others must go on, with the same
// twelve ranks and the same bits. With the argument "ends", one of the others has seen the world come to its end when
// the process dies, and one has not: both must throw PeerLost. For Open MPI 5: mpirun --with-ft ulfm -np 3.
#include <signal.h>

#include <cmath>
#include <cstdio>
#include <string_view>
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

void LeaveOutOne(ProcessGroup& group, const PeerLost& e) {
  std::fprintf(stderr, "process %d: %s\n", group.process(), e.what());
  if (group.LeaveOutLostProcesses() != 1) throw InputError("one process died, another number was left out");
}

// The ranks are the processes.
void EndWhileOneDies(ProcessGroup& group) {
  try {
    group.RunRanks(3, [](Communicator& comm) {
      if (comm.rank() == 1) ::raise(SIGKILL);
      if (comm.rank() == 2) comm.Receive(1, 0);
      throw WorldEnds("as agreed");
    });
  } catch (const PeerLost& e) {
    return LeaveOutOne(group, e);
  }
  throw InputError("a process was lost, and RunRanks returned");
}

int Main(bool ends) {
  const auto group = ProcessGroup::Join("test");
  if (ends) EndWhileOneDies(*group);
  const bool first_dies = group->num_processes() == 3 && group->process() == 1;
  for (;;) {
    try {
      group->RunRanks(kRanks, [&](Communicator& comm) { AddUp(comm, first_dies); });
      break;
    } catch (const PeerLost& e) {
      LeaveOutOne(*group, e);
    }
  }
  std::printf("all sums as with all processes\n");
  return 0;
}

}  // namespace
}  // namespace antiphon::comm

int main(int argc, char** argv) {
  try {
    return antiphon::comm::Main(argc > 1 && std::string_view(argv[1]) == "ends");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
