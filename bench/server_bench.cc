// How fast a parameter server takes gradients: bytes of pushes applied per second on one core, by rule. A shard belongs
// to one thread, so that there are no locks; shards on other cores do the same beside it.
//
// Time is the core's own, so that other programs on the machine do not count.
// Usage: server_bench [MILLIONS_OF_VALUES [SECONDS]]; prints one JSON object per line.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>
#include <vector>

#include "base/compute_threads.h"
#include "parallel/parameter_shard.h"

namespace antiphon::parallel {
namespace {

void Run(const std::string& rule, size_t size, double seconds) {
  const std::vector<float> push(size, 1e-6f);
  ParameterShard shard(ParseServerRule(rule), 0.9, std::vector<float>(size, 0.1f));
  shard.Apply(push, 0.01);  // touches the memory
  const std::clock_t begin = std::clock();
  double passed = 0;
  int64_t pushes = 0;
  while (passed < seconds) {
    shard.Apply(push, 0.01);
    ++pushes;
    passed = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  }
  const double bytes = static_cast<double>(pushes) * static_cast<double>(size) * sizeof(float);
  fmt::print("{{\"server_update\": \"{}\", \"values\": {}, \"gigabytes_per_second\": {:.2f}}}\n", rule, size,
             bytes / passed / 1e9);
}

}  // namespace
}  // namespace antiphon::parallel

int main(int argc, char** argv) {
  antiphon::SetComputeThreads(1);
  const auto size = static_cast<size_t>(1e6 * (argc > 1 ? std::atof(argv[1]) : 20));
  const double seconds = argc > 2 ? std::atof(argv[2]) : 1;
  for (const char* rule : {"sum", "momentum", "adagrad"}) antiphon::parallel::Run(rule, size, seconds);
  return 0;
}
