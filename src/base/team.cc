#include "base/team.h"

#include <algorithm>
#include <numeric>

namespace antiphon {
namespace {

class OneMember : public Team {
 public:
  int size() const override { return 1; }
  int index() const override { return 0; }
  std::vector<std::string> Exchange(std::string mine, Spread) override { return {std::move(mine)}; }
};

}  // namespace

Team& Team::Alone() {
  static OneMember alone;
  return alone;
}

std::vector<int> ShareOut(std::span<const int64_t> sizes, int members) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return sizes[a] > sizes[b]; });
  std::vector<int64_t> load(static_cast<size_t>(members), 0);
  std::vector<int> member(sizes.size(), 0);
  for (const size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += std::max<int64_t>(1, sizes[i]);
    member[i] = static_cast<int>(least - load.begin());
  }
  return member;
}

}  // namespace antiphon
