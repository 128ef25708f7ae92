#include "train/worker_counts.h"

#include <algorithm>
#include <cstring>

namespace antiphon::train {

// In the body, as a loss may be found before it and behind it.
void WorkerCounts::Meet(const Position& position) {
  if (comm_.survivors() == nullptr) return;
  comm_.Together([&] {
    const Count mine{position.frames, position.bytes_sent};
    const std::vector<std::byte> bytes = comm_.AllGather(std::as_bytes(std::span(&mine, 1)));
    known_.resize(bytes.size() / sizeof(Count));
    std::memcpy(known_.data(), bytes.data(), bytes.size());
  });
}

WorkerCounts::Count WorkerCounts::Lose(std::span<const int> workers) {
  Count lost;
  std::vector<Count> left;
  for (size_t w = 0; w < known_.size(); ++w) {
    if (std::find(workers.begin(), workers.end(), static_cast<int>(w)) == workers.end()) {
      left.push_back(known_[w]);
      continue;
    }
    lost.frames += known_[w].frames;
    lost.bytes_sent += known_[w].bytes_sent;
  }
  known_ = std::move(left);
  return lost;
}

}  // namespace antiphon::train
