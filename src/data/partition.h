// Divides utterances among workers so that all have the same number of frames.
//
// Longest processing time first: the longest item goes to the least loaded part; the fullest part holds at most 4/3 of
// the optimum (Graham, SIAM J. Appl. Math. 1969). Every item is in exactly one part. Idle time of synchronous workers
// is 1 − mean/max of the loads. Results depend on ids, sizes and seed, never on the order of the input.
//
// Threads: pure functions. Errors: UsageError for fewer than one part.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace antiphon::data {

struct PartitionItem {
  std::string id;       // unique; items of one id are interchangeable
  int64_t size = 0;     // frames
  std::string stratum;  // speaker (or length bin, noise class …); empty: not stratified
};

/// Indices into `items` per part, each part sorted by a random order drawn from (seed, part). Ties of the load are
/// broken at random from `seed`, so that another seed (another epoch) gives another division of equal quality. With
/// strata, each stratum is spread evenly too, at the cost of at most one item of imbalance.
std::vector<std::vector<size_t>> Partition(std::span<const PartitionItem> items, int num_parts, uint64_t seed);

/// Largest load divided by the mean load; 1 is perfect, and also the answer for no items.
double Imbalance(std::span<const PartitionItem> items, const std::vector<std::vector<size_t>>& parts);

/// Chooses whole strata (speakers) at random that hold about `fraction` of all frames: the held-out set. At least one,
/// never all: InputError if there are fewer than two strata. Returns one flag per item.
std::vector<bool> HoldOutStrata(std::span<const PartitionItem> items, double fraction, uint64_t seed);

}  // namespace antiphon::data
