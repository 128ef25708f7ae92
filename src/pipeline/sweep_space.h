// What a sweep varies: keys of a training's configuration, each with the values that it may take.
//
//   [vary]
//   schedule.learning-rate = "log:0.01..1"                     # drawn evenly in the logarithm
//   schedule.final-learning-rate = "0.1 * schedule.learning-rate"  # follows another key
//   data.minibatch = [128, 256, 512]                           # one of these
//   optimizer.momentum = "0..0.95"                             # drawn evenly
//   network.layer = ["[{type = 'affine', dim = 256}, …]", …]   # texts: any value, as behind --set
//
// A range is [log:|int:|log-int:]LOW..HIGH[/POINTS]; with POINTS it is that many values, evenly spaced, ends included,
// which a grid needs. Drawn numbers are rounded to four digits (log) or six, so that they can be read and typed.
//
// Random runs: the value of a key in run k depends on the seed, k and the key alone, so that runs can be added later,
// and other keys, without changing those that are there. Grid: all combinations, the last key fastest.
//
// Threads: plain data and functions. Errors: UsageError naming the key and what was expected.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"

namespace antiphon::pipeline {

/// One key and its values.
struct SweptOption {
  enum class Kind { kChoices, kLinear, kLog, kFollows };
  std::string key;
  Kind kind = Kind::kChoices;
  std::vector<std::string> choices;  // as behind --set; of a range with points, too
  double low = 0;
  double high = 0;
  bool whole = false;
  double factor = 1;   // kFollows: of the other key's value
  std::string leader;  // kFollows: that key
};

/// Keys and values of one run, as behind --set.
using SweptValues = std::vector<std::pair<std::string, std::string>>;

/// What the table says, in its order. UsageError for no key at all, a key twice, a text that is no range, and one that
/// follows what is not varied by numbers.
std::vector<SweptOption> ReadSweptOptions(const Config& vary);

/// All combinations. UsageError for a range without points, and for more than 10000.
std::vector<SweptValues> GridOf(const std::vector<SweptOption>& options);

/// The first `runs` random ones, each other than those before it; fewer where there are no more.
std::vector<SweptValues> RandomRuns(const std::vector<SweptOption>& options, int runs, uint64_t seed);

}  // namespace antiphon::pipeline
