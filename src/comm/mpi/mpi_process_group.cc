// Processes that mpirun or srun started, each with its share of the ranks as threads.
#include <fmt/format.h>

#include <exception>

#include "base/error.h"
#include "comm/mpi/mpi_engine.h"
#include "comm/mpi/piece_rule.h"
#include "comm/process_group.h"
#include "comm/rank_threads.h"

namespace antiphon::comm {
namespace {

constexpr double kSecondsToTell = 5;

class MpiProcessGroup : public ProcessGroup {
 public:
  explicit MpiProcessGroup(std::string_view version) : engine_(version) {}

  int process() const override { return engine_.place().process; }
  int num_processes() const override { return engine_.place().num_processes; }
  int processes_on_host() const override { return engine_.place().processes_on_host; }
  std::string Describe() const override {
    const MpiEngine::Place place = engine_.place();
    std::string text = fmt::format("{} processes by {}{}", place.num_processes, place.library,
                                   engine_.survives_losses() ? ", which goes on if one dies" : "");
    if (place.processes_on_host == place.num_processes) return text;
    return text + (place.pieces_help
                       ? fmt::format("; long messages between machines go in pieces of {} kB", kPieceBytes / 1000)
                       : "; long messages between machines go whole");
  }

  void RunRanks(int world_size, const std::function<void(Communicator&)>& body) override {
    const MpiEngine::Place place = engine_.place();
    if (world_size < place.num_processes) {
      Throw<UsageError>(
          "{} processes were started for {} worker(s): start at most as many processes as parallel.workers",
          place.num_processes, world_size);
    }
    const int first = FirstRankOf(place.process, place.num_processes, world_size);
    const int end = FirstRankOf(place.process + 1, place.num_processes, world_size);
    const std::shared_ptr<Hub> hub = engine_.OpenWorld(world_size);
    std::string loss;
    std::exception_ptr ended;
    try {
      RunRankThreads(
          first, end - first, [&](int rank) { return ConnectToHub(hub, rank); }, body);
    } catch (const PeerLost& e) {
      loss = e.what();
    } catch (const WorldEnds&) {
      ended = std::current_exception();
    } catch (const Cancelled&) {
      engine_.Drain(kSecondsToTell);  // the others may still be on their way to it
      engine_.CloseWorld();
      throw;
    } catch (...) {
      engine_.CloseWorld();
      throw;
    }
    if (ended) engine_.Drain(kSecondsToTell);
    engine_.CloseWorld();
    // A process may die when some have got through and others have not: all go on from here in the same way.
    if (engine_.survives_losses() && !engine_.Agree(loss.empty()) && loss.empty()) loss = "another process was lost";
    if (!loss.empty()) throw PeerLost(loss);
    if (ended) std::rethrow_exception(ended);
    engine_.Succeeded();
  }

  int LeaveOutLostProcesses() override { return engine_.Shrink(); }

 private:
  MpiEngine engine_;
};

}  // namespace

std::unique_ptr<ProcessGroup> JoinMpi(std::string_view version) { return std::make_unique<MpiProcessGroup>(version); }

}  // namespace antiphon::comm
