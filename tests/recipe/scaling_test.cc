#include "recipe/scaling.h"

#include <gtest/gtest.h>

#include "base/config.h"
#include "base/error.h"

namespace antiphon::recipe {
namespace {

TEST(Scaling, GrowsWithDataWithinItsLimits) {
  ModelSizes last = SizesFor(0.001);
  EXPECT_EQ(last.leaves, 96);
  EXPECT_EQ(last.hidden_dim, 256);
  EXPECT_EQ(last.epochs, 12);
  for (const double hours : {0.01, 0.3, 1.0, 4.0, 20.0, 100.0, 1000.0, 100000.0}) {
    const ModelSizes sizes = SizesFor(hours);
    EXPECT_GE(sizes.leaves, last.leaves);
    EXPECT_GE(sizes.gaussians, last.gaussians);
    EXPECT_GE(sizes.hidden_dim, last.hidden_dim);
    EXPECT_GE(sizes.hidden_layers, last.hidden_layers);
    EXPECT_LE(sizes.epochs, last.epochs);
    EXPECT_EQ(sizes.hidden_dim % 64, 0);
    EXPECT_GE(sizes.chain_dim, last.chain_dim);
    EXPECT_GE(sizes.chain_layers, last.chain_layers);
    EXPECT_LE(sizes.chain_epochs, last.chain_epochs);
    last = sizes;
  }
  EXPECT_EQ(last.leaves, 10000);
  EXPECT_EQ(last.hidden_dim, 2048);
  EXPECT_THROW(SizesFor(0.0), InternalError);
}

TEST(Scaling, WritesVariablesOfARecipe) {
  const Config config = Config::Parse(ToToml(SizesFor(3.7)), "sizes");
  EXPECT_EQ(config.Int("leaves"), SizesFor(3.7).leaves);
  EXPECT_EQ(config.Keys().size(), 11u);
}

}  // namespace
}  // namespace antiphon::recipe
