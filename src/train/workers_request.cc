#include "train/workers_request.h"

#include <fmt/format.h>

#include <utility>

#include "base/cancel.h"
#include "base/file.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "parallel/strategy_traits.h"

namespace antiphon::train {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kBetweenLooks{250};

fs::path FileIn(const fs::path& folder) { return folder / "workers.toml"; }

}  // namespace

void LeaveRequest(const fs::path& folder, const WorkersRequest& request) {
  WriteFileAtomically(FileIn(folder), OptionsToConfig(request).ToToml());
}

std::optional<WorkersRequest> FindRequest(const fs::path& folder) {
  if (!fs::exists(FileIn(folder))) return std::nullopt;
  return ReadOptions<WorkersRequest>(Config::Load(FileIn(folder)));
}

void RemoveRequest(const fs::path& folder) {
  std::error_code ignored;  // there may be none
  fs::remove(FileIn(folder), ignored);
}

void RemoveMetRequest(const fs::path& folder, int workers) {
  try {
    const std::optional<WorkersRequest> request = FindRequest(folder);
    if (request && request->workers == workers && request->launch.empty()) RemoveRequest(folder);
  } catch (const Error&) {
    return;  // RunRequests says what is wrong
  }
}

RunRequests::RunRequests(fs::path folder, const Config& parallel, bool waits_for_epochs, comm::Communicator& comm)
    : folder_(std::move(folder)),
      waits_for_epochs_(waits_for_epochs),
      one_worker_(parallel::TraitsOf(parallel).one_worker),
      method_(parallel::MethodOf(parallel)),
      comm_(comm) {}

RunRequests::Asked RunRequests::Look(bool at_epoch_end) {
  Asked asked;
  const auto now = std::chrono::steady_clock::now();
  // What the machine's clock says must not get into a simulation.
  if (comm_.rank() == 0 && !comm_.time_is_virtual() && !put_off_ && (at_epoch_end || !waits_for_epochs_)) {
    if (now - last_look_ >= kBetweenLooks) {
      found_ = InFolder();
      last_look_ = now;
    }
    asked = found_;
  }
  asked.stop = asked.stop || CancelRequested();
  if (asked.stop) asked.workers = 0;
  return asked;
}

// What cannot be met is no reason to end the run.
RunRequests::Asked RunRequests::InFolder() {
  std::string why_not;
  try {
    const std::optional<WorkersRequest> request = FindRequest(folder_);
    if (!request) return {};
    const bool supervised = FolderLock::IsHeld(folder_, kSuperviseLock);
    why_not = WhyNot(*request, supervised);
    if (why_not.empty()) return {.stop = supervised, .workers = supervised ? 0 : request->workers};
  } catch (const Error& e) {
    why_not = e.what();
  }
  log::Warn("the request for another number of workers is not met: {}", why_not);
  RemoveRequest(folder_);
  return {};
}

std::string RunRequests::WhyNot(const WorkersRequest& request, bool supervised) const {
  if (!request.launch.empty() && !supervised) {
    return "it names a --launch, but nobody supervises this run; start it with --launch or --restarts";
  }
  if (one_worker_ && request.workers > 1) return fmt::format("method '{}' has one worker", method_);
  if (request.workers == comm_.world_size() && request.launch.empty()) {
    return fmt::format("the run has {} workers", request.workers);
  }
  return "";
}

}  // namespace antiphon::train
