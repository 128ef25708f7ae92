#include "train/divergence_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/log.h"
#include "math/finite.h"

namespace antiphon::train {
namespace {

constexpr double kRunningLossDecay = 0.95;

}  // namespace

void DivergenceGuard::Look(const parallel::StepOutput& output, int outputs, parallel::Strategy& strategy,
                           Position& position) {
  const std::string found = Find(output, outputs, position.running_loss);
  if (found.empty()) return;
  if (comm_.world_size() == 1) throw Diverged(found);
  position.running_loss = -1;
  if (strategy.LeaveOut()) {
    log::Warn("worker {}, step {}: {}; left out until the next exchange", comm_.rank(), position.step, found);
  } else if (found_.empty()) {
    found_ = found;
  }
}

void DivergenceGuard::LookAtValues(std::span<const float> values, parallel::Strategy& strategy) {
  if (AllFinite(values)) return;
  if (comm_.world_size() == 1 || !strategy.LeaveOut()) found_ = "a parameter is not finite";
}

// What is wrong with a step, or nothing.
std::string DivergenceGuard::Find(const parallel::StepOutput& output, int outputs, double& running_loss) const {
  const double loss = output.loss.loss();
  if (!std::isfinite(loss)) return "the loss of a minibatch is not finite";
  if (output.report.max_change_scale == 0) return "a step would have been infinite";
  if (output.loss.weight_sum == 0) return "";
  running_loss = running_loss < 0 ? loss : kRunningLossDecay * running_loss + (1 - kRunningLossDecay) * loss;
  const double limit = options_.explosion_factor * std::log(std::max(2, outputs));
  if (running_loss <= limit) return "";
  return fmt::format("the running loss {:.4g} exceeds {:.4g}, {} times that of a uniform guess", running_loss, limit,
                     options_.explosion_factor);
}

void DivergenceGuard::AgreeOnDivergence() {
  if (comm_.world_size() == 1) {
    if (!found_.empty()) throw Diverged(std::exchange(found_, ""));
    return;
  }
  constexpr size_t kLength = 200;
  std::string mine = std::exchange(found_, "").substr(0, kLength);
  mine.resize(kLength, '\0');
  std::vector<std::byte> all;
  comm_.Together([&] { all = comm_.AllGather(std::as_bytes(std::span(mine))); });
  // One of those that said something may be lost since.
  for (size_t r = 0; r < all.size() / kLength; ++r) {
    const std::string theirs(reinterpret_cast<const char*>(all.data()) + r * kLength, kLength);
    if (theirs[0] != '\0') throw Diverged(fmt::format("worker {}: {}", r, theirs.c_str()));
  }
}

}  // namespace antiphon::train
