// What every communicator must do, run over each way of carrying messages.
//
// The cases are in communicator_conformance.cc; a carrier adds itself in a file of its own:
//   INSTANTIATE_TEST_SUITE_P(Threads, CommunicatorConformance, testing::ValuesIn(WorldsOf("threads", &RunRanks, {1, 2,
//   5})), NameOfWorld);
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace antiphon::comm {

struct World {
  std::string carrier;
  int size = 1;
  /// Runs the body on all ranks that live in this process; throws what the rank that failed first threw.
  std::function<void(int size, const std::function<void(Communicator&)>& body)> run;
};

inline std::vector<World> WorldsOf(const std::string& carrier, decltype(World::run) run,
                                   const std::vector<int>& sizes) {
  std::vector<World> worlds;
  for (const int size : sizes) worlds.push_back({carrier, size, run});
  return worlds;
}

inline std::string NameOfWorld(const testing::TestParamInfo<World>& info) {
  return info.param.carrier + "_" + std::to_string(info.param.size);
}

inline void PrintTo(const World& world, std::ostream* out) { *out << world.carrier << " × " << world.size; }

class CommunicatorConformance : public testing::TestWithParam<World> {
 protected:
  void Run(const std::function<void(Communicator&)>& body) { GetParam().run(GetParam().size, body); }
};

}  // namespace antiphon::comm
