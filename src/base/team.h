// Processes that work through one list together: feature extraction, alignment and decoding of many utterances.
//
//   SpreadInOrder<Result>(team, lengths, num_threads, Spread::kToFirst, produce, consume);
//
// Every member calls it with the same list. Items go to members so that all get equally much (longest first, to who has
// least), a window of the list at a time; the results are consumed in the order of the list, so that what is made of
// them does not depend on the number of members or threads. Between windows members wait for each other.
// Threads: one per member, besides those that produce. Errors: what produce or consume throws ends the member; the
// others meet a PeerError in Exchange.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/pack.h"
#include "base/thread_pool.h"

namespace antiphon {

/// Who gets the results.
enum class Spread { kToFirst, kToAll };

class Team {
 public:
  virtual ~Team() = default;
  virtual int size() const = 0;
  /// Of this process; the first, 0, writes files and speaks.
  virtual int index() const = 0;
  bool is_first() const { return index() == 0; }
  /// What each member gives, by index; with kToFirst others than the first get empty texts. Collective.
  virtual std::vector<std::string> Exchange(std::string mine, Spread to) = 0;

  /// This process without others.
  static Team& Alone();
};

/// Member for each item: longest first, to the one with least.
std::vector<int> ShareOut(std::span<const int64_t> sizes, int members);

/// Items of a window per member.
inline constexpr size_t kSpreadWindow = 256;

/// `sizes`: anything proportional to the items' work. T: packable (base/pack.h), default constructible.
template <class T, class Produce, class Consume>
void SpreadInOrder(Team& team, std::span<const int64_t> sizes, int num_threads, Spread to, Produce&& produce,
                   Consume&& consume) {
  if (team.size() == 1) {
    ParallelInOrder<T>(sizes.size(), num_threads, produce, consume);
    return;
  }
  const size_t window = kSpreadWindow * static_cast<size_t>(team.size());
  for (size_t begin = 0; begin < sizes.size(); begin += window) {
    const size_t count = std::min(window, sizes.size() - begin);
    const std::vector<int> member = ShareOut(sizes.subspan(begin, count), team.size());
    std::vector<size_t> mine;
    for (size_t i = 0; i < count; ++i) {
      if (member[i] == team.index()) mine.push_back(begin + i);
    }
    Packer packer;
    ParallelInOrder<T>(
        mine.size(), num_threads, [&](size_t k) { return produce(mine[k]); },
        [&](size_t k, T&& result) {
          packer(mine[k]);
          packer(result);
        });
    const std::vector<std::string> all = team.Exchange(packer.Take(), to);
    if (to == Spread::kToFirst && !team.is_first()) continue;
    std::vector<Unpacker> unpackers(all.begin(), all.end());
    for (size_t i = 0; i < count; ++i) {
      T result{};
      size_t index = 0;
      Unpacker& theirs = unpackers[static_cast<size_t>(member[i])];
      theirs(index);
      if (index != begin + i) {
        Throw<InputError>("process {} of {} computed item {} where {} was expected: they do not see the same data",
                          member[i], team.size(), index, begin + i);
      }
      theirs(result);
      consume(begin + i, std::move(result));
    }
  }
}

}  // namespace antiphon
