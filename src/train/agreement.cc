#include "train/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/host_name.h"
#include "base/log.h"
#include "train/text_difference.h"

namespace antiphon::train {
namespace {

constexpr size_t kNoteLength = 400;

}  // namespace

std::string FromRankZero(comm::Communicator& comm, std::string text) {
  uint64_t size = text.size();
  comm.Broadcast(0, std::as_writable_bytes(std::span(&size, 1)));
  text.resize(size);
  comm.Broadcast(0, std::as_writable_bytes(std::span(text)));
  return text;
}

std::string DescribeModels(const TrainingTask& task) {
  std::string lines;
  if (task.initial) lines += fmt::format("initial = \"{:016x}\"\n", task.initial->network.Hash());
  for (const auto& teacher : task.teachers) lines += fmt::format("teacher = \"{:016x}\"\n", teacher->network.Hash());
  return lines;
}

std::string DescribeForAgreement(const TrainingTask& task, const TrainOptions& options, int world_size, bool resume) {
  return fmt::format(
      "seed = {}\nworkers = {}\nresume = {}\n{}data = {:016x}\nheld-out data = "
      "{:016x}\n{}\n[optimizer]\n{}\n[parallel]\n{}\n"
      "[network]\n{}\n",
      task.seed, world_size, resume, DescribeModels(task), task.store->fingerprint(),
      task.held_out_store ? task.held_out_store->fingerprint() : 0, OptionsToConfig(options).ToToml(),
      task.optimizer.ToToml(), task.parallel.ToToml(), task.network.ToToml());
}

void AgreeOnExperiment(comm::Communicator& comm, const std::string& mine) {
  if (comm.world_size() == 1) return;
  std::string note;
  if (const auto lines = FirstDifference(FromRankZero(comm, mine), mine)) {
    note = fmt::format("on {} has '{}', rank 0 '{}'", HostName(), lines->second, lines->first);
  }
  note.resize(kNoteLength, '\0');
  const std::vector<std::byte> all = comm.AllGather(std::as_bytes(std::span(note)));
  for (int r = 0; r < comm.world_size(); ++r) {
    const auto* text = reinterpret_cast<const char*>(all.data()) + kNoteLength * static_cast<size_t>(r);
    if (*text == '\0') continue;
    // Nobody leaves before all know: whoever failed first would make the others report a lost peer.
    try {
      comm.Barrier();
    } catch (const PeerError&) {
      log::Debug("a rank left before the others knew that the experiments differ");
    }
    Throw<UsageError>(
        "the ranks were started for different experiments: rank {} {}. Give all of them the same configuration and "
        "data",
        r, std::string(text, std::find(text, text + kNoteLength, '\0')));
  }
}

}  // namespace antiphon::train
