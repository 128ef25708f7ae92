// The processes that mpirun or Slurm started with this one, for commands that divide their work among them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/team.h"
#include "comm/process_group.h"
#include "command.h"
#include "pipeline/stage_host.h"

namespace antiphon::app {

/// Joined when first asked for; the same for all commands of the program but those within an AloneScope.
comm::ProcessGroup& Processes();

/// While it lives, Processes() is this process alone: for a command that the others were not given, which must not wait
/// for them. Scopes may lie in each other. Threads: the program's first.
class AloneScope {
 public:
  AloneScope();
  ~AloneScope();
  AloneScope(const AloneScope&) = delete;
  AloneScope& operator=(const AloneScope&) = delete;

 private:
  std::unique_ptr<comm::ProcessGroup> group_;
  comm::ProcessGroup* before_;
};

/// Of a machine's cores, those of one of so many processes on it that may use `usable` of them; at least 1.
int ShareOfCores(int cores, int processes, int usable);
/// Cores of this machine are shared by the processes on it, unless the launcher has bound each to its own.
int ThreadsOfProcess(const comm::ProcessGroup& group, const CommandContext& context);

/// Only process 0 speaks; the others' warnings carry their number.
void SpeakAsProcess(int process, CommandContext& context);

/// Runs `body` in every process, with the threads that are its share. The first member writes what there is to write.
/// What one process meets ends all. All processes must have been given the same command.
void InTeam(CommandContext& context, const std::function<void(Team& team, int threads)>& body);

/// For stages that run others: with this command's threads and seed, its sentences on standard output.
pipeline::StageHost HostOf(CommandContext& context);

/// `text` of the first process, on all. Collective; waits for as long as the first takes.
std::string TextOfFirst(comm::ProcessGroup& group, const std::string& text);

}  // namespace antiphon::app
