#include "comm/process_group.h"

#include <cstdint>
#include <cstdlib>

#include "base/check.h"
#include "comm/thread_world.h"

namespace antiphon::comm {
namespace {

class AloneGroup : public ProcessGroup {
 public:
  int process() const override { return 0; }
  int num_processes() const override { return 1; }
  int processes_on_host() const override { return 1; }
  std::string Describe() const override { return "threads of one process"; }
  void RunRanks(int world_size, const std::function<void(Communicator&)>& body) override {
    comm::RunRanks(world_size, body);
  }
  int LeaveOutLostProcesses() override { return 0; }
};

int NumberFrom(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

int FirstRankOf(int process, int num_processes, int world_size) {
  CHECK(process >= 0 && process <= num_processes) << process;
  return static_cast<int>(int64_t{world_size} * process / num_processes);
}

// Open MPI's mpirun, srun (of a step; a batch script alone is one process), and MPI's process managers in general.
int LaunchedProcesses() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const int processes = NumberFrom(variable); processes > 0) return processes;
  }
  return 1;
}

std::unique_ptr<ProcessGroup> ProcessGroup::Alone() { return std::make_unique<AloneGroup>(); }

std::unique_ptr<ProcessGroup> ProcessGroup::Join(std::string_view version) {
  return LaunchedProcesses() > 1 ? JoinMpi(version) : Alone();
}

}  // namespace antiphon::comm
