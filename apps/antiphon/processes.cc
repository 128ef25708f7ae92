#include "processes.h"

#include <algorithm>
#include <thread>

#include "base/compute_threads.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "comm/team.h"
#include "log_sink.h"

namespace antiphon::app {
namespace {

// Between two exchanges a process works through its share of a window of utterances.
constexpr double kDeadlineSeconds = 7200;
// A step of a recipe that the first process takes alone; if it fails, the launcher ends the others.
constexpr double kEndless = 1e9;

// The innermost AloneScope's; null: none is open.
comm::ProcessGroup* alone = nullptr;

}  // namespace

comm::ProcessGroup& Processes() {
  if (alone != nullptr) return *alone;
  static const std::unique_ptr<comm::ProcessGroup> group = comm::ProcessGroup::Join(ANTIPHON_VERSION);
  return *group;
}

AloneScope::AloneScope() : group_(comm::ProcessGroup::Alone()), before_(alone) { alone = group_.get(); }
AloneScope::~AloneScope() { alone = before_; }

int ShareOfCores(int cores, int processes, int usable) { return std::clamp(cores / processes, 1, usable); }

int ThreadsOfProcess(const comm::ProcessGroup& group, const CommandContext& context) {
  if (context.config().Int("threads").value_or(0) > 0) return context.threads();
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return ShareOfCores(cores, group.processes_on_host(), NumCores());
}

void SpeakAsProcess(int process, CommandContext& context) {
  context.Silence(process > 0);
  if (process > 0) ShowWarningsOf(process);
}

void InTeam(CommandContext& context, const std::function<void(Team& team, int threads)>& body) {
  comm::ProcessGroup& group = Processes();
  if (group.num_processes() == 1) return body(Team::Alone(), context.threads());
  SpeakAsProcess(group.process(), context);
  const int threads = ThreadsOfProcess(group, context);
  log::Info("{}, {} thread(s) in this one", group.Describe(), threads);
  group.RunRanks(group.num_processes(), [&](comm::Communicator& comm) {
    comm.set_deadline_seconds(kDeadlineSeconds);
    SetComputeThreads(threads);
    comm::CommunicatorTeam team(comm);
    body(team, threads);
    // Nobody leaves before the first has written everything.
    comm.Barrier();
  });
}

pipeline::StageHost HostOf(CommandContext& context) {
  return {.threads = context.threads(),
          .seed = context.seed(),
          .say = [&](const std::string& sentence) { context.PrintLine(sentence); },
          .in_team = [&](const auto& body) { InTeam(context, body); }};
}

std::string TextOfFirst(comm::ProcessGroup& group, const std::string& text) {
  std::string told;
  group.RunRanks(group.num_processes(), [&](comm::Communicator& comm) {
    comm.set_deadline_seconds(kEndless);
    comm::CommunicatorTeam team(comm);
    told = team.Exchange(comm.rank() == 0 ? text : std::string(), Spread::kToAll)[0];
  });
  return told;
}

}  // namespace antiphon::app
