// Work spread over a team: the same results in the same order for any number of members, everybody's share alike.
#include "comm/team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/thread_world.h"

namespace antiphon::comm {
namespace {

struct Item {
  std::string text;
  std::vector<double> values;
  std::map<std::string, std::vector<int>> table;
  template <class V>
  void VisitFields(V& v) {
    v(text);
    v(values);
    v(table);
  }
  bool operator==(const Item&) const = default;
};

Item Make(size_t i) {
  return {
      std::string(i % 7, 'x'), std::vector<double>(i % 5, 0.5 * static_cast<double>(i)), {{"key", {1, 2}}, {"", {}}}};
}

TEST(Team, HandsResultsOverInOrder) {
  constexpr size_t kItems = 700;  // more than a window
  std::vector<int64_t> sizes(kItems);
  for (size_t i = 0; i < kItems; ++i) sizes[i] = static_cast<int64_t>(1 + i * i % 97);
  for (const int members : {1, 2, 3}) {
    for (const Spread to : {Spread::kToFirst, Spread::kToAll}) {
      std::vector<std::atomic<int>> computed(kItems);
      std::vector<int64_t> load(static_cast<size_t>(members), 0);
      RunRanks(members, [&](Communicator& comm) {
        CommunicatorTeam team(comm);
        size_t next = 0;
        std::atomic<int64_t> mine = 0;
        SpreadInOrder<Item>(
            team, sizes, 2, to,
            [&](size_t i) {
              ++computed[i];
              mine += sizes[i];
              return Make(i);
            },
            [&](size_t i, Item&& item) {
              EXPECT_EQ(i, next++);
              EXPECT_EQ(item, Make(i));
            });
        EXPECT_EQ(next, to == Spread::kToAll || comm.rank() == 0 ? kItems : 0u);
        load[static_cast<size_t>(comm.rank())] = mine;
      });
      for (const auto& times : computed) EXPECT_EQ(times, 1);
      const auto [least, most] = std::minmax_element(load.begin(), load.end());
      EXPECT_LT(static_cast<double>(*most), 1.03 * static_cast<double>(*least));
    }
  }
}

TEST(Team, AnErrorOfOneMemberIsThatOfAll) {
  const std::vector<int64_t> sizes(20, 1);
  try {
    RunRanks(3, [&](Communicator& comm) {
      comm.set_deadline_seconds(30);
      CommunicatorTeam team(comm);
      SpreadInOrder<int>(
          team, sizes, 1, Spread::kToAll,
          [](size_t i) -> int {
            if (i == 11) throw InputError("utterance 11 is silent");
            return 0;
          },
          [](size_t, int&&) {});
    });
    FAIL() << "nothing was thrown";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("utterance 11 is silent"), std::string::npos) << e.what();
  }
}

TEST(Team, MembersThatSeeDifferentDataAreFound) {
  EXPECT_THROW(RunRanks(2,
                        [](Communicator& comm) {
                          comm.set_deadline_seconds(30);
                          CommunicatorTeam team(comm);
                          std::vector<int64_t> sizes = {5, 4, 3, 2, 1};
                          if (comm.rank() == 1) std::swap(sizes[0], sizes[1]);
                          SpreadInOrder<int>(
                              team, sizes, 1, Spread::kToAll, [](size_t i) { return static_cast<int>(i); },
                              [](size_t i, int&& value) { EXPECT_EQ(static_cast<int>(i), value); });
                        }),
               Error);
}

TEST(Pack, RefusesWhatIsCutShort) {
  Packer packer;
  packer(Make(13));
  for (size_t size = 0; size < packer.bytes().size(); ++size) {
    Item item;
    EXPECT_THROW(Unpacker(std::string_view(packer.bytes()).substr(0, size))(item), InputError) << size;
  }
}

}  // namespace
}  // namespace antiphon::comm
