#include "data/partition.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace antiphon::data {
namespace {

// Indices sorted by id, so that the order of the input does not matter.
std::vector<size_t> SortedById(std::span<const PartitionItem> items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return items[a].id < items[b].id; });
  return order;
}

}  // namespace

std::vector<std::vector<size_t>> Partition(std::span<const PartitionItem> items, int num_parts, uint64_t seed) {
  if (num_parts < 1) Throw<UsageError>("expected at least one part, not {}", num_parts);
  std::vector<size_t> order = SortedById(items);
  Rng rng(seed, 0);
  rng.Shuffle(std::span(order));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return items[a].size > items[b].size; });

  const auto n = static_cast<size_t>(num_parts);
  std::vector<std::vector<size_t>> parts(n);
  std::vector<int64_t> load(n, 0);
  std::map<std::string, std::vector<int64_t>> stratum_load;
  for (const size_t i : order) {
    std::vector<int64_t>* const stratum =
        items[i].stratum.empty() ? nullptr : &stratum_load.try_emplace(items[i].stratum, n, 0).first->second;
    // A part may take the item if that keeps it within the load that the least loaded one would reach; among those, the
    // part that has least of the stratum.
    const int64_t limit = *std::min_element(load.begin(), load.end()) + (stratum != nullptr ? items[i].size : 0);
    size_t best = n;
    for (size_t p = 0; p < n; ++p) {
      if (load[p] > limit) continue;
      if (best == n || (stratum != nullptr && (*stratum)[p] < (*stratum)[best]) ||
          ((stratum == nullptr || (*stratum)[p] == (*stratum)[best]) && load[p] < load[best])) {
        best = p;
      }
    }
    parts[best].push_back(i);
    load[best] += items[i].size;
    if (stratum != nullptr) (*stratum)[best] += items[i].size;
  }
  for (size_t p = 0; p < n; ++p) {
    std::sort(parts[p].begin(), parts[p].end(), [&](size_t a, size_t b) { return items[a].id < items[b].id; });
    Rng(seed, p + 1).Shuffle(std::span(parts[p]));
  }
  return parts;
}

double Imbalance(std::span<const PartitionItem> items, const std::vector<std::vector<size_t>>& parts) {
  int64_t largest = 0;
  int64_t sum = 0;
  for (const std::vector<size_t>& part : parts) {
    int64_t load = 0;
    for (const size_t i : part) load += items[i].size;
    largest = std::max(largest, load);
    sum += load;
  }
  return sum == 0 ? 1.0 : static_cast<double>(largest) * static_cast<double>(parts.size()) / static_cast<double>(sum);
}

std::vector<bool> HoldOutStrata(std::span<const PartitionItem> items, double fraction, uint64_t seed) {
  if (!(fraction > 0.0 && fraction < 1.0))
    Throw<UsageError>("the held-out fraction must lie between 0 and 1, not {}", fraction);
  std::map<std::string, int64_t> sizes;
  int64_t total = 0;
  for (const PartitionItem& item : items) {
    sizes[item.stratum] += item.size;
    total += item.size;
  }
  if (sizes.size() < 2) {
    Throw<InputError>("a held-out set by speaker needs at least two speakers, there is {}", sizes.size());
  }
  std::vector<std::string> order;
  for (const auto& [name, size] : sizes) order.push_back(name);
  Rng(seed, 0).Shuffle(std::span(order));
  std::map<std::string, bool> held;
  // Whatever brings the sum nearer to what is wanted; the first one in any case, the last one left never.
  double missing = fraction * static_cast<double>(total);
  size_t count = 0;
  for (const std::string& name : order) {
    const auto size = static_cast<double>(sizes[name]);
    if (count + 1 == order.size() || (count > 0 && size > 2.0 * missing)) continue;
    held[name] = true;
    missing -= size;
    ++count;
  }
  std::vector<bool> flags;
  for (const PartitionItem& item : items) flags.push_back(held[item.stratum]);
  return flags;
}

}  // namespace antiphon::data
