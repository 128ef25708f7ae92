// The sum over ranks that are threads of one process, in memory that they share: no messages with the values, and every
// rank adds up a part.
//
// Values go through in pieces. Of each, every rank lays down its own; when all have, rank r adds the ranks' values of
// its part in the order of Communicator's tree, so that the bits are the same as with messages, into rank 0's memory;
// when all parts are there, every rank takes the whole. Rank 0 lays every other piece into another memory, as the last
// sum may still be read. The memory belongs to this object and outlives ranks that fail in between.
// Threads: one per rank; `meet` returns when all ranks have called it, and throws where a rank failed.
// Errors: InputError if the ranks' values differ in number.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace antiphon::comm {

class SharedSum {
 public:
  /// Shorter values are sent faster than three meetings take.
  static constexpr size_t kLeast = 16384;

  explicit SharedSum(int world_size) : ranks_(static_cast<size_t>(world_size)) {}

  /// Collective.
  void Sum(int rank, std::span<float> values, const std::function<void()>& meet);

 private:
  static constexpr size_t kPiece = size_t{1} << 22;
  struct Rank {
    std::vector<float> values[2];
    size_t size = 0;    // of all values of this sum
    size_t pieces = 0;  // that this rank laid down ever
  };

  void AddPart(size_t rank, size_t parity, size_t size);

  std::vector<Rank> ranks_;
};

}  // namespace antiphon::comm
