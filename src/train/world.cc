#include "train/world.h"

#include <algorithm>

#include "base/compute_threads.h"
#include "base/error.h"

namespace antiphon::train {
namespace {

constexpr int kMostWorkers = 4096;

int Workers(const Config& parallel) {
  const int64_t workers = parallel.Int("workers").value_or(1);
  if (workers < 1 || workers > kMostWorkers) {
    Throw<UsageError>("{}: parallel.workers must be 1 … {}, found {}", parallel.Where("workers"), kMostWorkers,
                      workers);
  }
  return static_cast<int>(workers);
}

}  // namespace

std::optional<comm::SimulationReport> RunWorkers(const Config& parallel, const Config& cluster, int threads,
                                                 comm::ProcessGroup& group,
                                                 const std::function<void(comm::Communicator&)>& body) {
  const int workers = Workers(parallel);
  const std::string world = parallel.Text("world").value_or("threads");
  if (world == "simulated") {
    if (group.num_processes() > 1) {
      Throw<UsageError>("a simulated cluster runs in one process, but {} were started", group.num_processes());
    }
    const auto options = ReadOptions<comm::ClusterOptions>(cluster);
    return comm::RunSimulated(workers, options, [&](comm::Communicator& comm) {
      SetComputeThreads(std::max(1, threads));
      body(comm);
    });
  }
  if (world != "threads") {
    Throw<UsageError>("{}: parallel.world must be 'threads' or 'simulated', found '{}'", parallel.Where("world"),
                      world);
  }
  if (!cluster.Keys().empty()) {
    Throw<UsageError>("{}: the table `cluster` is for parallel.world = \"simulated\" only: set that, or leave it out",
                      cluster.Where());
  }
  const int here = comm::FirstRankOf(group.process() + 1, group.num_processes(), workers) -
                   comm::FirstRankOf(group.process(), group.num_processes(), workers);
  group.RunRanks(workers, [&](comm::Communicator& comm) {
    SetComputeThreads(std::max(1, threads / here));
    body(comm);
  });
  return std::nullopt;
}

}  // namespace antiphon::train
