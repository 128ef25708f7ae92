#include "base/enum_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace antiphon {
namespace {

enum class Shape { kRound, kSquare };
constexpr std::array kShapes = {EnumName{Shape::kRound, "round"}, EnumName{Shape::kSquare, "square"}};

struct CutOptions {
  Shape shape = Shape::kSquare;
  template <class V>
  void Visit(V& v) {
    VisitEnum(v, "shape", shape, kShapes, "of the pieces");
  }
};

TEST(EnumOption, IsReadAndWrittenByItsName) {
  EXPECT_EQ(ReadOptions<CutOptions>(Config()).shape, Shape::kSquare);
  const auto read = ReadOptions<CutOptions>(Config::Parse("shape = \"round\"\n", "test"));
  EXPECT_EQ(read.shape, Shape::kRound);
  EXPECT_EQ(OptionsToConfig(read).Text("shape"), "round");
}

TEST(EnumOption, IsDescribedWithAllItsNames) {
  const std::vector<OptionDescription> described = DescribeOptions<CutOptions>();
  ASSERT_EQ(described.size(), 1U);
  EXPECT_EQ(described[0].type, "text");
  EXPECT_EQ(described[0].limits, "round|square");
  EXPECT_EQ(described[0].default_value, "\"square\"");
}

TEST(EnumOption, RefusesOtherNames) {
  EXPECT_THROW(ReadOptions<CutOptions>(Config::Parse("shape = \"oval\"\n", "test")), UsageError);
  EXPECT_THROW(ParseEnum("oval", kShapes), UsageError);
  EXPECT_THROW(NameOf(static_cast<Shape>(7), kShapes), InternalError);
}

}  // namespace
}  // namespace antiphon
