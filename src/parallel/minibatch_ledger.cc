#include "parallel/minibatch_ledger.h"

#include <algorithm>

#include "base/check.h"

namespace antiphon::parallel {

void MinibatchLedger::BeginRound(int64_t first, int64_t last) {
  CHECK_EQ(num_outstanding(), 0);
  next_ = first;
  last_ = last;
}

std::optional<int64_t> MinibatchLedger::Take(int worker) {
  int64_t minibatch = 0;
  if (!returned_.empty()) {
    minibatch = *returned_.begin();
    returned_.erase(returned_.begin());
  } else if (next_ < last_) {
    minibatch = next_++;
  } else {
    return std::nullopt;
  }
  outstanding_.at(static_cast<size_t>(worker)).insert(minibatch);
  return minibatch;
}

void MinibatchLedger::Remove(int worker, int64_t minibatch) {
  CHECK_EQ(outstanding_.at(static_cast<size_t>(worker)).erase(minibatch), 1u)
      << "worker " << worker << " does not have minibatch " << minibatch;
}

void MinibatchLedger::Confirm(int worker, std::span<const int64_t> minibatches) {
  for (const int64_t m : minibatches) Remove(worker, m);
  confirmed_ += std::ssize(minibatches);
}

void MinibatchLedger::GiveBack(int worker, std::span<const int64_t> minibatches) {
  for (const int64_t m : minibatches) {
    Remove(worker, m);
    returned_.insert(m);
  }
}

int64_t MinibatchLedger::Lose(int worker) {
  std::set<int64_t>& theirs = outstanding_.at(static_cast<size_t>(worker));
  const auto count = static_cast<int64_t>(theirs.size());
  returned_.merge(theirs);
  theirs.clear();
  return count;
}

int64_t MinibatchLedger::num_outstanding() const {
  size_t count = 0;
  for (const auto& theirs : outstanding_) count += theirs.size();
  return static_cast<int64_t>(count);
}

void MinibatchLedger::SaveState(SafetensorsWriter& writer, const std::string& prefix) const {
  std::vector<int64_t> numbers = {next_, confirmed_};
  numbers.insert(numbers.end(), returned_.begin(), returned_.end());
  writer.Add(prefix + ".ledger", std::span<const int64_t>(numbers));
}

void MinibatchLedger::LoadState(const SafetensorsReader& reader, const std::string& prefix) {
  const std::vector<int64_t> numbers = reader.ReadInts(prefix + ".ledger");
  Clear();
  next_ = last_ = numbers.at(0);
  confirmed_ = numbers.at(1);
  returned_.insert(numbers.begin() + 2, numbers.end());
}

void MinibatchLedger::LoadFolded(std::span<const SafetensorsReader> ranks, const std::string& prefix) {
  Clear();
  const auto kept = [&](const SafetensorsReader& reader) { return reader.Has(prefix + ".ledger"); };
  if (ranks.size() > 1 && std::ranges::none_of(ranks, kept)) LoadState(ranks[0], prefix);  // for its error
  MinibatchLedger theirs(1);
  for (const SafetensorsReader& reader : ranks) {
    if (!kept(reader)) continue;
    theirs.LoadState(reader, prefix);
    next_ = last_ = theirs.next_;
    confirmed_ = std::max(confirmed_, theirs.confirmed_);
    returned_.merge(theirs.returned_);
  }
}

void MinibatchLedger::Clear() {
  next_ = last_ = 0;
  returned_.clear();
  for (auto& theirs : outstanding_) theirs.clear();
}

}  // namespace antiphon::parallel
