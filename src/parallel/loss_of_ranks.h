// What the ranks that are left are told when others are lost. Threads: a value.
#pragma once

#include <vector>

namespace antiphon::parallel {

/// Ranks that are gone since the last numbering.
struct Loss {
  std::vector<int> ranks;        // as they were numbered then
  std::vector<int> first_ranks;  // as they were numbered at the start
  int world_size = 0;            // of then
  bool again = false;            // what they were lost in is gone through anew; else all have been through it, they too
};

}  // namespace antiphon::parallel
