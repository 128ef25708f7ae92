#include "comm/thread_world.h"

#include "comm/hub.h"
#include "comm/rank_threads.h"

namespace antiphon::comm {

ThreadWorld::ThreadWorld(int world_size, bool survive_losses) : hub_(std::make_shared<Hub>(world_size, 0, world_size)) {
  if (survive_losses) hub_->SurviveLosses();
}
ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::Connect(int rank) { return ConnectToHub(hub_, rank); }

std::unique_ptr<Communicator> MakeSelfCommunicator() { return ThreadWorld(1).Connect(0); }

namespace {

void RunThreads(int world_size, bool survive_losses, const std::function<void(Communicator&)>& body) {
  ThreadWorld world(world_size, survive_losses);
  RunRankThreads(
      0, world_size, [&](int rank) { return world.Connect(rank); }, body);
}

}  // namespace

void RunRanks(int world_size, const std::function<void(Communicator&)>& body) { RunThreads(world_size, false, body); }
void RunLosableRanks(int world_size, const std::function<void(Communicator&)>& body) {
  RunThreads(world_size, true, body);
}

}  // namespace antiphon::comm
