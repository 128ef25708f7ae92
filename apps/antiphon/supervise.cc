#include "supervise.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/error.h"
#include "base/log.h"

namespace antiphon::app {
namespace {

constexpr int kPollMs = 200;

struct ProcessOutcome {
  int status = 0;  // as waitpid gives it
  std::string output;
  bool not_started() const { return WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127); }
  bool refused() const { return WIFEXITED(status) && WEXITSTATUS(status) == 2; }
  bool stopped() const { return WIFEXITED(status) && WEXITSTATUS(status) == 3; }
  std::string Describe() const {
    if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
    const int code = WEXITSTATUS(status);
    return code > 128 ? fmt::format("was ended by signal {}", code - 128) : fmt::format("ended with status {}", code);
  }
};

// Asks a run to stop. mpirun would kill its processes at SIGTERM, but passes SIGUSR1 on.
int SignalToStop(const std::string& launch) { return launch.empty() ? SIGTERM : SIGUSR1; }

// The launcher is a shell command, what it starts is not.
[[noreturn]] void Execute(const std::string& launch, const std::vector<std::string>& arguments, pid_t parent,
                          int output) {
  ::setpgid(0, 0);  // a key on the terminal reaches the parent alone, which passes it on once
  // The run stops when its supervisor is killed. The system looks at the thread that forked: the program's first, which
  // lives as long as the program.
  ::prctl(PR_SET_PDEATHSIG, SignalToStop(launch));
  if (::getppid() != parent) ::_exit(127);  // it died before that
  ::dup2(output, STDOUT_FILENO);
  const std::string shell = "exec " + launch + " \"$@\"";
  std::vector<const char*> argv = {"/bin/sh", "-c", shell.c_str(), "sh"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  ::execv(argv[0], const_cast<char* const*>(argv.data()));
  ::_exit(127);
}

// What there is to read now; false at the end.
bool ReadSome(int input, std::string& output) {
  pollfd entry{input, POLLIN, 0};
  while (::poll(&entry, 1, kPollMs) > 0) {
    char buffer[4096];
    const ssize_t size = ::read(input, buffer, sizeof(buffer));
    if (size == 0) return false;
    if (size > 0) output.append(buffer, static_cast<size_t>(size));
  }
  return true;
}

// Everything that the child prints, until it ends. What it leaves behind may keep its output open.
ProcessOutcome Attend(pid_t child, int input, int signal_to_stop) {
  ProcessOutcome outcome;
  bool told = false;
  for (;;) {
    const bool open = ReadSome(input, outcome.output);
    if (::waitpid(child, &outcome.status, WNOHANG) == child) {
      if (open) ReadSome(input, outcome.output);
      return outcome;
    }
    if (!open) ::usleep(1000 * kPollMs);
    if (CancelRequested() && !told) {
      ::kill(child, signal_to_stop);
      told = true;
    }
  }
}

ProcessOutcome RunOnce(const std::string& launch, const std::vector<std::string>& arguments) {
  int ends[2];
  if (::pipe(ends) != 0) Throw<IoError>("cannot make a pipe: {}", std::strerror(errno));
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) Throw<IoError>("cannot start a process: {}", std::strerror(errno));
  if (child == 0) {
    ::close(ends[0]);
    Execute(launch, arguments, parent, ends[1]);
  }
  ::close(ends[1]);
  ProcessOutcome outcome = Attend(child, ends[0], SignalToStop(launch));
  ::close(ends[0]);
  return outcome;
}

// The last line that is a JSON object, as a launcher may print lines of its own; nothing if there is none.
std::string ResultIn(const std::string& output) {
  std::istringstream lines(output);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("{") && line.ends_with("}")) result = line;
  }
  return result;
}

// What the run's processes are given.
class Starts {
 public:
  Starts(const std::filesystem::path& config, bool resume)
      : resume_(resume),
        arguments_({std::filesystem::read_symlink("/proc/self/exe").string(), "train", "--config",
                    std::filesystem::absolute(config).string(), "--restarts", "0", "--launch", "", "--json"}) {
    if (log::Logger().level() > spdlog::level::info) arguments_.push_back("--quiet");
    first_ = arguments_;
    if (resume) arguments_.push_back("--resume");
  }
  const std::vector<std::string>& arguments() const { return arguments_; }
  /// `begun`: the folder holds this run, and not perhaps an earlier one that it is to replace.
  void Again(const std::string& note, bool begun) {
    arguments_ = first_;
    if (resume_ || begun) arguments_.push_back("--resume");
    arguments_.insert(arguments_.end(), {"--note", note});
  }

 private:
  bool resume_;
  std::vector<std::string> arguments_;
  std::vector<std::string> first_;
};

}  // namespace

std::string SuperviseTraining(const SupervisedRun& run, ProcessPlan plan, bool resume, int restarts) {
  Starts starts(run.config, resume);
  std::optional<ProcessPlan> before;  // of a change that has not begun yet
  bool begun = false;                 // by any plan
  const auto go_on_with = [&](const ProcessPlan& next, const std::string& note) {
    log::Warn("{}", note);
    plan = next;
    run.prepare(plan);
    starts.Again(note, begun);
  };
  for (int failures = 0;;) {
    const ProcessOutcome outcome = RunOnce(plan.launch, starts.arguments());
    const bool has_begun = run.has_begun();
    begun = begun || has_begun;
    // A launcher may report a process that died although the others finished the run.
    if (const std::string result = ResultIn(outcome.output); !result.empty()) return result;
    if (CancelRequested()) throw Cancelled("stopped on request; the run saved what it could, see above");
    if (const std::optional<ProcessPlan> next = run.take_request()) {
      before = plan;
      const std::string failed = outcome.stopped() ? "" : fmt::format("the run {}, see above; ", outcome.Describe());
      go_on_with(*next, fmt::format("{}{} workers go on as asked, {}started by '{}'", failed, next->workers,
                                    failed.empty() ? "" : "from the last checkpoint, ", next->launch));
      continue;
    }
    // A batch system may ask the ranks themselves.
    if (outcome.stopped()) throw Cancelled("stopped on request; the run saved what it could, see above");
    if (before && !has_begun) {
      const std::string note =
          fmt::format("the run by {} workers and '{}' {}, see above; {} workers and '{}' go on", plan.workers,
                      plan.launch, outcome.Describe(), before->workers, before->launch);
      go_on_with(*std::exchange(before, std::nullopt), note);
      continue;
    }
    before.reset();
    if (outcome.not_started()) Throw<UsageError>("--launch '{}' cannot be run", plan.launch);
    if (outcome.refused()) throw UsageError("the run was refused, see above");
    if (failures >= restarts) {
      Throw<PeerError>(
          "the run {}, see above and in the logs of its processes; it was started again {} time(s), more --restarts "
          "does not allow. To go on from the last checkpoint: {}",
          outcome.Describe(), failures, run.resume_hint);
    }
    ++failures;
    const std::string note =
        fmt::format("the run {} and was started again{}, {} of {} restarts", outcome.Describe(),
                    begun || resume ? " from its last checkpoint" : ", as it had not begun", failures, restarts);
    log::Warn("{}", note);
    starts.Again(note, begun);
  }
}

}  // namespace antiphon::app
