#include "base/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace antiphon {
namespace {

struct Shape {
  virtual ~Shape() = default;
  virtual int Corners() const = 0;
};
struct Polygon : Shape {
  explicit Polygon(int n) : corners(n) {}
  int Corners() const override { return corners; }
  int corners;
};
using ShapeRegistry = Registry<Shape, int>;

REGISTER_COMPONENT(ShapeRegistry, "square", [](int) { return std::make_unique<Polygon>(4); });
REGISTER_COMPONENT(ShapeRegistry, "polygon", [](int n) { return std::make_unique<Polygon>(n); });

TEST(Registry, MakesWhatWasRegisteredBeforeMain) {
  EXPECT_EQ(ShapeRegistry::Get().Names(), (std::vector<std::string>{"polygon", "square"}));
  EXPECT_EQ(ShapeRegistry::Get().Create("polygon", 7)->Corners(), 7);
}

TEST(Registry, RefusesUnknownAndDoubleNames) {
  EXPECT_THROW(ShapeRegistry::Get().Add("square", nullptr), InternalError);
  try {
    ShapeRegistry::Get().Create("squar", 0);
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("did you mean 'square'?"));
  }
}

}  // namespace
}  // namespace antiphon
