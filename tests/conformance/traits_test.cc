// What is registered beside components belongs to components.
#include <gtest/gtest.h>

#include "nn/layer_traits.h"
#include "nn/network.h"
#include "parallel/strategy.h"
#include "parallel/strategy_traits.h"
#include "plan/cost_method.h"

namespace antiphon {
namespace {

TEST(Traits, AreThoseOfRegisteredLayers) {
  EXPECT_GE(nn::LayerTraitsRegistry::Get().Names().size(), 15U);
  for (const std::string& type : nn::LayerTraitsRegistry::Get().Names()) {
    EXPECT_TRUE(nn::LayerRegistry::Get().Has(type)) << type;
  }
  EXPECT_FALSE(nn::TraitsOf("no such layer").nonlinearity);
}

TEST(Traits, SayWhichProductsHoldPlainWeights) {
  using enum nn::LayerTraits::Product;
  EXPECT_EQ(nn::TypesWith({kPlain, kMasked, kRounded}),
            (std::vector<std::string>{"affine", "linear", "sparse-affine", "quantized-affine"}));
  for (const std::string& type : nn::TypesWith({kPlain})) EXPECT_TRUE(nn::TraitsOf(type).divisible) << type;
}

TEST(Traits, AreThoseOfRegisteredStrategies) {
  for (const std::string& method : parallel::StrategyTraitsRegistry::Get().Names()) {
    EXPECT_TRUE(parallel::StrategyRegistry::Get().Has(method)) << method;
  }
  EXPECT_TRUE(parallel::TraitsOf(Config()).one_worker) << "serial, if no method is named";
  const Config admm = Config::Parse("method = \"admm\"\n", "parallel");
  EXPECT_FALSE(parallel::TraitsOf(admm).of_own_data.empty());
  EXPECT_FALSE(parallel::TraitsOf(admm).one_worker);
}

}  // namespace
}  // namespace antiphon
