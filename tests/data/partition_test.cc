#include "data/partition.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "data/data_dir.h"
#include "oracle.h"

namespace antiphon::data {
namespace {

std::vector<PartitionItem> Items(const std::vector<int64_t>& sizes) {
  std::vector<PartitionItem> items;
  for (size_t i = 0; i < sizes.size(); ++i) items.push_back({"u" + std::to_string(1000 + i), sizes[i], {}});
  return items;
}

int64_t Makespan(const std::vector<PartitionItem>& items, const std::vector<std::vector<size_t>>& parts) {
  int64_t largest = 0;
  for (const auto& part : parts) {
    int64_t load = 0;
    for (const size_t i : part) load += items[i].size;
    largest = std::max(largest, load);
  }
  return largest;
}

// The optimum over all assignments.
int64_t BruteForce(const std::vector<int64_t>& sizes, size_t parts) {
  std::vector<size_t> part(sizes.size(), 0);
  int64_t best = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  for (;;) {
    std::vector<int64_t> load(parts, 0);
    for (size_t i = 0; i < sizes.size(); ++i) load[part[i]] += sizes[i];
    best = std::min(best, *std::max_element(load.begin(), load.end()));
    size_t i = 0;
    while (i < part.size() && ++part[i] == parts) part[i++] = 0;
    if (i == part.size()) return best;
  }
}

TEST(Partition, HoldsEveryItemOnceWhateverTheOrderOfTheInput) {
  EXPECT_TRUE(rc::check("disjoint, complete, independent of order", [] {
    const auto sizes = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000));
    const int parts = *rc::gen::inRange(1, 9);
    const auto seed = *rc::gen::arbitrary<uint64_t>();
    std::vector<PartitionItem> items = Items({sizes.begin(), sizes.end()});
    for (size_t i = 0; i < items.size(); ++i) items[i].stratum = i % 3 == 0 ? "" : "s" + std::to_string(i % 5);
    const auto result = Partition(items, parts, seed);
    RC_ASSERT(result.size() == static_cast<size_t>(parts));
    std::set<size_t> seen;
    for (const auto& part : result) {
      for (const size_t i : part) RC_ASSERT(seen.insert(i).second);
    }
    RC_ASSERT(seen.size() == items.size());

    std::vector<PartitionItem> reversed(items.rbegin(), items.rend());
    const auto again = Partition(reversed, parts, seed);
    for (size_t p = 0; p < result.size(); ++p) {
      RC_ASSERT(result[p].size() == again[p].size());
      for (size_t k = 0; k < result[p].size(); ++k) RC_ASSERT(items[result[p][k]].id == reversed[again[p][k]].id);
    }
  }));
}

TEST(Partition, IsWithinFourThirdsOfTheOptimum) {
  Rng rng(17);
  for (int trial = 0; trial < 30; ++trial) {
    std::vector<int64_t> sizes;
    for (int i = 0; i < 10; ++i) sizes.push_back(1 + static_cast<int64_t>(rng.Below(100)));
    const auto items = Items(sizes);
    for (const size_t parts : {size_t{2}, size_t{3}}) {
      const int64_t found = Makespan(items, Partition(items, static_cast<int>(parts), 1));
      EXPECT_LE(3 * found, 4 * BruteForce(sizes, parts)) << "trial " << trial;
    }
  }
}

TEST(Partition, ChangesWithTheSeed) {
  const auto items = Items(std::vector<int64_t>(100, 50));
  EXPECT_NE(Partition(items, 4, 1), Partition(items, 4, 2));
  EXPECT_EQ(Partition(items, 4, 1), Partition(items, 4, 1));
  EXPECT_THROW(Partition(items, 0, 1), UsageError);
}

// Speakers of very different amounts of speech.
std::vector<PartitionItem> SpeakerItems() {
  Rng rng(3);
  std::vector<PartitionItem> items;
  for (int s = 0; s < 12; ++s) {
    for (int u = 0; u < 20 + 10 * s; ++u) {
      items.push_back({std::to_string(s) + "-" + std::to_string(u), 200 + static_cast<int64_t>(rng.Below(1500)),
                       std::to_string(s)});
    }
  }
  return items;
}

// Sum over parts and speakers of (observed − expected)² / expected, in seconds of speech.
double ChiSquare(const std::vector<PartitionItem>& items, const std::vector<std::vector<size_t>>& parts) {
  std::map<std::string, double> total;
  for (const PartitionItem& item : items) total[item.stratum] += static_cast<double>(item.size) / 100.0;
  double chi2 = 0.0;
  for (const auto& part : parts) {
    std::map<std::string, double> observed;
    for (const size_t i : part) observed[items[i].stratum] += static_cast<double>(items[i].size) / 100.0;
    for (const auto& [name, seconds] : total) {
      const double expected = seconds / static_cast<double>(parts.size());
      chi2 += (observed[name] - expected) * (observed[name] - expected) / expected;
    }
  }
  return chi2;
}

TEST(Partition, SpreadsSpeakersMoreEvenlyThanChance) {
  const auto items = SpeakerItems();
  auto plain = items;
  for (PartitionItem& item : plain) item.stratum.clear();
  for (const int parts : {2, 4, 8}) {
    const auto stratified = Partition(items, parts, 5);
    EXPECT_LT(Imbalance(items, stratified), 1.01);
    EXPECT_LT(ChiSquare(items, stratified), 0.2 * ChiSquare(items, Partition(plain, parts, 5)));
  }
}

TEST(Partition, BalancesARealCorpusToOnePercent) {
  const auto folder = SharedDir("data/minilibri/data/train");
  if (!folder) GTEST_SKIP() << "no shared data";
  const DataDir dir = DataDir::Load(*folder);
  std::vector<PartitionItem> items;
  for (const Utterance& u : dir.utterances()) {
    items.push_back({u.utt_id, static_cast<int64_t>(u.duration_s * 100.0), u.speaker});
  }
  for (const int parts : {2, 4, 8, 16})
    EXPECT_LT(Imbalance(items, Partition(items, parts, 1)), 1.01) << parts << " parts";
}

TEST(HoldOutStrata, TakesWholeSpeakersThatMakeUpTheFraction) {
  const auto items = SpeakerItems();
  const std::vector<bool> held = HoldOutStrata(items, 0.1, 7);
  std::map<std::string, std::set<bool>> sides;
  int64_t held_size = 0;
  int64_t total = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    sides[items[i].stratum].insert(held[i]);
    held_size += held[i] ? items[i].size : 0;
    total += items[i].size;
  }
  for (const auto& [speaker, side] : sides) EXPECT_EQ(side.size(), 1u) << speaker;
  EXPECT_NEAR(static_cast<double>(held_size) / static_cast<double>(total), 0.1, 0.03);
  EXPECT_EQ(held, HoldOutStrata(items, 0.1, 7));
  EXPECT_THROW(HoldOutStrata(std::vector<PartitionItem>{{"a", 1, "s"}}, 0.1, 1), InputError);
  const std::vector<PartitionItem> two = {{"a", 1, "s"}, {"b", 100, "t"}};
  for (uint64_t seed = 0; seed < 8; ++seed) {
    for (const double fraction : {0.001, 0.999}) {
      const std::vector<bool> one = HoldOutStrata(two, fraction, seed);
      EXPECT_NE(one[0], one[1]);
    }
  }
}

}  // namespace
}  // namespace antiphon::data
