#include "train/step_order.h"

#include <algorithm>

#include "base/error.h"

namespace antiphon::train {
namespace {

constexpr const char* kName = "returned-minibatches";

}  // namespace

int64_t StepOrder::Take(int64_t epoch, int64_t next, int64_t end, int workers) {
  const auto old = std::min<int64_t>(workers, std::ssize(returned_));
  std::vector<data::MinibatchId> step(returned_.begin(), returned_.begin() + old);
  returned_.erase(returned_.begin(), returned_.begin() + old);
  for (int64_t i = old; i < workers; ++i, ++next) {
    if (next < end) step.push_back({epoch, next});
  }
  steps_.push_back(std::move(step));
  return next;
}

void StepOrder::Settle(int64_t at_risk) {
  while (std::ssize(steps_) > at_risk) steps_.pop_front();
}

std::vector<data::MinibatchId> StepOrder::GiveBack(std::span<const int> workers, int64_t at_risk) {
  Settle(at_risk);
  std::vector<data::MinibatchId> theirs;
  for (const std::vector<data::MinibatchId>& step : steps_) {
    for (const int w : workers) {
      if (w < std::ssize(step)) theirs.push_back(step[static_cast<size_t>(w)]);
    }
  }
  // The others' numbers are new from here on, and a second loss must not give back what came back once.
  for (std::vector<data::MinibatchId>& step : steps_) {
    std::vector<data::MinibatchId> left;
    for (size_t w = 0; w < step.size(); ++w) {
      if (std::find(workers.begin(), workers.end(), static_cast<int>(w)) == workers.end()) left.push_back(step[w]);
    }
    step = std::move(left);
  }
  returned_.insert(returned_.end(), theirs.begin(), theirs.end());
  std::sort(returned_.begin(), returned_.end());
  return theirs;
}

void StepOrder::Clear() {
  returned_.clear();
  steps_.clear();
}

void StepOrder::SaveState(SafetensorsWriter& writer) const {
  if (returned_.empty()) return;
  std::vector<int64_t> numbers;
  for (const data::MinibatchId& m : returned_) numbers.insert(numbers.end(), {m.epoch, m.index});
  writer.Add(kName, std::span<const int64_t>(numbers));
}

void StepOrder::LoadState(const SafetensorsReader& reader) {
  Clear();
  if (!reader.Has(kName)) return;
  const std::vector<int64_t> numbers = reader.ReadInts(kName);
  if (numbers.size() % 2 != 0) Throw<InputError>("'{}' has {} numbers, expected pairs", kName, numbers.size());
  for (size_t i = 0; i < numbers.size(); i += 2) returned_.push_back({numbers[i], numbers[i + 1]});
}

}  // namespace antiphon::train
