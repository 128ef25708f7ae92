// What the ranks of a pool of parameter servers send each other (parallel/server_pool.h). Internal to the pool.
// Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/arrival_log.h"

namespace antiphon::parallel {

enum class PoolLetterKind : int64_t {
  kTake,
  kJudge,
  kPush,
  kPull,
  kApplied,
  kMayRead,
  kDone,
  kStop,
  kGranted,  // from here on answers
  kVerdict,
  kValues,
  kRead,
  kOver,
};

struct PoolLetterHead {
  int64_t kind;
  int64_t number;
  double real;
  int64_t payload_bytes;
};
struct PoolLetter {
  int source = 0;
  PoolLetterKind kind = PoolLetterKind::kTake;
  int64_t number = 0;
  double real = 0;
  std::vector<std::byte> owned;
  std::span<const std::byte> view;  // of the sender's memory, in requests to oneself
  int64_t expected = 0;             // bytes of a payload that has not come yet
  // What a rank asks for as a worker comes in the order of its program, what it reports as a server in the order in
  // which it handles requests; how the two mix is chance.
  bool reports() const { return kind == PoolLetterKind::kApplied; }
  Arrival arrival() const { return {source, static_cast<int32_t>(kind)}; }
  std::span<const std::byte> payload() const { return owned.empty() ? view : std::span<const std::byte>(owned); }
};

}  // namespace antiphon::parallel
