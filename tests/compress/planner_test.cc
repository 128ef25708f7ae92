#include "compress/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace antiphon::compress {
namespace {

using ::testing::HasSubstr;

// Outcomes by the moves' names.
class Table : public Workshop {
 public:
  std::map<std::string, Outcome> outcomes;
  std::vector<std::string> asked;
  Outcome Measure(const std::vector<Move>& moves) override {
    std::string name;
    for (const Move& m : moves) name += m.method;
    asked.push_back(name);
    if (!outcomes.contains(name)) Throw<UsageError>("no '{}'", name);
    return outcomes.at(name);
  }
};

const Ladder kLadder = {{{"a", ""}, {"A", ""}}, {{"b", ""}}, {{"c", ""}}};

TEST(Planner, KeepsWhatIsFasterAndUndoesWhatLosesTooMuch) {
  Table table;
  table.outcomes = {{"", {0.10, 1.0, 100, 0}},
                    {"a", {0.10, 0.5, 60, 0}},
                    {"A", {0.13, 0.3, 30, 0}},
                    {"ab", {0.1005, 0.5, 20, 0}},
                    {"ac", {0.1009, 0.2, 10, 0}}};
  const PlanResult result = SearchPlan(table, kLadder, {.max_loss = 0.01});
  EXPECT_EQ(table.asked, (std::vector<std::string>{"", "a", "A", "ab", "ac"}));
  ASSERT_EQ(result.tries.size(), 4u);
  EXPECT_THAT(result.tries[1].verdict, HasSubstr("more than may be lost"));
  EXPECT_THAT(result.tries[2].verdict, HasSubstr("no faster on this machine"));
  ASSERT_EQ(result.chosen.size(), 2u);
  EXPECT_EQ(result.chosen[1].method, "c");
  EXPECT_TRUE(result.met);
}

TEST(Planner, StopsWhenTheBudgetIsMet) {
  Table table;
  table.outcomes = {{"", {0.10, 1e-3, 100, 0}}, {"a", {0.10, 4e-4, 60, 0}}};
  const PlanResult result = SearchPlan(table, kLadder, {.real_time_factor = 0.05});
  EXPECT_EQ(table.asked.size(), 2u);
  EXPECT_TRUE(result.met);
  EXPECT_THAT(result.conclusion, HasSubstr("the budget is met"));
}

TEST(Planner, SaysWhatIsClosestToABudgetThatCannotBeMet) {
  Table table;
  table.outcomes = {{"", {0.10, 1e-3, 100, 0}}, {"a", {0.10, 8e-4, 60, 0}}, {"ab", {0.5, 1e-5, 1, 0}}};
  const PlanResult result = SearchPlan(table, kLadder, {.real_time_factor = 0.05});
  EXPECT_FALSE(result.met);
  EXPECT_THAT(result.conclusion, HasSubstr("cannot be met within the loss allowed; the closest, 1.60 times over it"));
  EXPECT_EQ(result.chosen.size(), 1u);
  EXPECT_THAT(result.tries.back().verdict, HasSubstr("cannot be done"));
}

TEST(Planner, TakesASmallerModelIfSizeIsAskedFor) {
  Table table;
  table.outcomes = {{"", {0.10, 1.0, 100, 0}}, {"a", {0.10, 1.0, 20, 0}}};
  EXPECT_EQ(SearchPlan(table, {{{"a", ""}}}, {.bytes = 30}).chosen.size(), 1u);
  EXPECT_EQ(SearchPlan(table, {{{"a", ""}}}, {}).chosen.size(), 0u);
}

TEST(Planner, KeepsWhatBringsTheBudgetNearerThoughNoFaster) {
  Table table;
  table.outcomes = {{"", {0.10, 1e-3, 100, 0}}, {"a", {0.10, 4e-4, 90, 0}}, {"A", {0.10, 4e-4, 40, 0}}};
  const PlanResult result = SearchPlan(table, {{{"a", ""}, {"A", ""}}}, {.real_time_factor = 0.05, .bytes = 50});
  EXPECT_EQ(result.chosen.front().method, "A");
  EXPECT_TRUE(result.met);
}

TEST(Planner, TriesTheNextOfAGroupIfOneWasOnlyNoFaster) {
  Table table;
  table.outcomes = {{"", {0.10, 1.0, 100, 0}}, {"a", {0.10, 1.0, 90, 0}}, {"A", {0.10, 0.5, 40, 0}}};
  const PlanResult result = SearchPlan(table, {{{"a", ""}, {"A", ""}}}, {});
  ASSERT_EQ(result.chosen.size(), 1u);
  EXPECT_EQ(result.chosen.front().method, "A");
}

// A method refuses what is too mild to change anything; all refusals are told.
TEST(Planner, TriesTheNextOfAGroupIfOneCannotBeDone) {
  Table table;
  table.outcomes = {{"", {0.10, 1.0, 100, 0}}, {"A", {0.10, 0.5, 40, 0}}};
  const PlanResult result = SearchPlan(table, {{{"a", ""}, {"A", ""}}, {{"b", ""}, {"B", ""}}}, {});
  ASSERT_EQ(result.tries.size(), 4u);
  for (const size_t refused : {0, 2, 3}) {
    EXPECT_TRUE(result.tries[refused].refused);
    EXPECT_THAT(result.tries[refused].verdict, HasSubstr("cannot be done: no '"));
  }
  ASSERT_EQ(result.chosen.size(), 1u);
  EXPECT_EQ(result.chosen.front().method, "A");
}

TEST(Planner, TriesWhatItIsToldInTheOrderOfTheLadder) {
  const Ladder ladder = StandardLadder({"quantize", "svd"});
  ASSERT_EQ(ladder.size(), 2u);
  EXPECT_EQ(ladder[0].front().method, "svd");
  EXPECT_EQ(ladder[1].front().method, "quantize");
  EXPECT_THROW(StandardLadder({"svdd"}), UsageError);
}

TEST(Planner, FindsTheFront) {
  PlanResult result;
  result.full = {0.10, 1.0, 0, 0};
  for (const auto& [error, seconds] :
       {std::pair(0.12, 0.5), std::pair(0.11, 0.6), std::pair(0.13, 0.55), std::pair(0.10, 1.2)}) {
    result.tries.push_back({{}, {error, seconds, 0, 0}, false, false, ""});
  }
  EXPECT_EQ(ParetoFront(result), (std::vector<int>{0, 1, -1}));
}

}  // namespace
}  // namespace antiphon::compress
