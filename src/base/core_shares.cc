#include "base/core_shares.h"

#include <algorithm>
#include <iterator>

namespace antiphon {

CoreShares::CoreShares(int num_threads) : num_threads_(std::max(1, num_threads)) {}

int64_t CoreShares::Begin() {
  const std::lock_guard lock(mutex_);
  parts_.insert(next_);
  return next_++;
}

void CoreShares::End(int64_t number) {
  const std::lock_guard lock(mutex_);
  parts_.erase(number);
}

int CoreShares::ShareOf(int64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto parts = static_cast<int>(parts_.size());
  const auto before = static_cast<int>(std::distance(parts_.begin(), parts_.find(number)));
  return std::max(1, num_threads_ / parts + (before < num_threads_ % parts ? 1 : 0));
}

CoreShares::Part::Part(CoreShares& cores) : cores_(cores), number_(cores.Begin()), scope_(cores.ShareOf(number_)) {}
CoreShares::Part::~Part() { cores_.End(number_); }
void CoreShares::Part::Update() { SetComputeThreads(cores_.ShareOf(number_)); }

}  // namespace antiphon
