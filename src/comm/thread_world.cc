#include "comm/thread_world.h"

#include "comm/hub.h"
#include "comm/rank_threads.h"

namespace antiphon::comm {

ThreadWorld::ThreadWorld(int world_size) : hub_(std::make_shared<Hub>(world_size, 0, world_size)) {}
ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::Connect(int rank) { return ConnectToHub(hub_, rank); }

std::unique_ptr<Communicator> MakeSelfCommunicator() { return ThreadWorld(1).Connect(0); }

void RunRanks(int world_size, const std::function<void(Communicator&)>& body) {
  ThreadWorld world(world_size);
  RunRankThreads(
      0, world_size, [&](int rank) { return world.Connect(rank); }, body);
}

}  // namespace antiphon::comm
