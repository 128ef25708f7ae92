// Strategies whose ranks are processes of MPI: the bits of threads where nothing is left to chance, a replay where the
// order of arrivals decides, and servers that serve while their rank is busy. ctest starts it by mpirun.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "comm_mpi/mpi_main.h"
#include "parallel/busy_server.h"
#include "parallel/small_learner.h"

namespace antiphon::parallel {
namespace {

comm::ProcessGroup* group = nullptr;
constexpr int kRanks = 4;

nn::Network Normalising() {
  return {Config::Parse("[[layer]]\ntype = \"affine\"\ndim = 9\n[[layer]]\ntype = \"batch-norm\"\naffine = true\n"
                        "[[layer]]\ntype = \"tanh\"\n[[layer]]\ntype = \"affine\"\n",
                        "net"),
          kFeatures, kPdfs, 3};
}

// The hash of rank 0, which all have.
uint64_t TrainOn(comm::Communicator& comm, const std::string& keys) {
  comm.set_deadline_seconds(60);
  Learner learner(keys, comm, "type = \"sgd\"\nmomentum = 0.5\nmax-change = 0.2\n", Normalising());
  if (learner.strategy->rounds() != nullptr) {
    learner.TrainRound(0, 30);
    learner.TrainRound(30, 60);
  } else {
    learner.Train(0, 12, comm.rank(), comm.world_size());
  }
  uint64_t hash = learner.End();
  comm.Broadcast(0, std::as_writable_bytes(std::span(&hash, 1)));
  return hash;
}

uint64_t OverMpi(const std::string& keys) {
  std::atomic<uint64_t> hash = 0;
  group->RunRanks(kRanks, [&](comm::Communicator& comm) { hash = TrainOn(comm, keys); });
  return hash;
}

TEST(StrategiesOverMpi, GiveTheBitsOfThreads) {
  for (const std::string keys :
       {"method = \"ssgd\"\ndivide = \"optimizer\"\n", "method = \"ssgd\"\ndivide = \"gradients\"\n",
        "method = \"ssgd\"\nsync-batch-norm = true\n",
        "method = \"ssgd\"\nsync-batch-norm = true\ndivide = \"gradients\"\n",
        "method = \"ssgd\"\ncodec = { type = \"one-bit\" }\n", "method = \"ssgd\"\ncodec = { type = \"top-k\" }\n",
        "method = \"ssgd\"\ncodec = { type = \"int8\", rounding = \"stochastic\" }\n",
        "method = \"averaging\"\nsync-period = 3\n", "method = \"bmuf\"\nsync-period = 3\n",
        "method = \"eamsgd\"\nsync-period = 3\n", "method = \"admm\"\nsync-period = 3\n", "method = \"pipeline\"\n",
        "method = \"model-parallel\"\nstripes = 2\n", "method = \"model-parallel\"\n"}) {
    std::atomic<uint64_t> threads = 0;
    comm::RunRanks(kRanks, [&](comm::Communicator& comm) { threads = TrainOn(comm, keys); });
    EXPECT_EQ(OverMpi(keys), threads) << keys;
  }
}

// The same path in all processes.
std::string CommonFolder() {
  std::array<char, 256> name{};
  if (group->process() == 0) {
    const auto folder = std::filesystem::temp_directory_path() / ("arrivals-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    std::snprintf(name.data(), name.size(), "%s", folder.c_str());
  }
  group->RunRanks(group->num_processes(),
                  [&](comm::Communicator& comm) { comm.Broadcast(0, std::as_writable_bytes(std::span(name))); });
  return name.data();
}

TEST(StrategiesOverMpi, ALoggedRunIsReplayedBitForBit) {
  const std::string folder = CommonFolder();
  int run = 0;
  for (const std::string keys : {"push-every = 2\n", "servers = 2\ndedicated-servers = true\n",
                                 "servers = 1\ndedicated-servers = true\n"
                                 "overlap = true\npush-every = 1\n",
                                 "overlap = true\nserver-update = \"momentum\"\n"}) {
    const std::string log = "\"" + folder + "/log" + std::to_string(run++) + "\"\n";
    const std::string all = "method = \"asgd\"\n" + keys;
    const uint64_t logged = OverMpi(all + "arrival-log = " + log);
    for (int again = 0; again < 2; ++again) EXPECT_EQ(OverMpi(all + "replay = " + log), logged) << keys;
  }
  group->RunRanks(group->num_processes(), [](comm::Communicator& comm) { comm.Barrier(); });
  if (group->process() == 0) std::filesystem::remove_all(folder);
}

TEST(StrategiesOverMpi, AServerServesWhileItsRankIsBusy) {
  group->RunRanks(kRanks, [](comm::Communicator& comm) {
    comm.set_deadline_seconds(20);
    ExpectServedWhileRankZeroIsBusy(comm);
  });
}

}  // namespace
}  // namespace antiphon::parallel

int main(int argc, char** argv) { return antiphon::comm::RunTestsOverMpi(argc, argv, antiphon::parallel::group); }
