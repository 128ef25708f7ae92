// Layers that shortcuts lead around are compressed like those of the chain itself.
#include <gtest/gtest.h>

#include <algorithm>

#include "compress/network_parts.h"
#include "compress/statistics.h"
#include "nn/layer_traits.h"
#include "small_model.h"

namespace antiphon::compress {
namespace {

// A shortcut within a shortcut, and names of the user's own.
nn::Model Shortcuts2() {
  return ModelOf(
      "{type = 'affine', dim = 32}, {type = 'relu'}, {type = 'tdnn-f', dim = 32, bottleneck = 16}, {type = 'residual', "
      "name = 'outer', scale = 0.5, layers = [{type = 'affine', name = 'own', dim = 32}, {type = 'residual', layers = "
      "[{type = 'affine', dim = 32}, {type = 'relu'}, {type = 'batch-norm'}]}, {type = 'relu'}, {type = 'affine', dim "
      "= 32}]}, {type = 'batch-norm'}, {type = 'affine'}");
}

std::vector<std::string> NamesOf(const std::vector<LayerParts>& parts) {
  std::vector<std::string> names;
  for (const LayerParts& layer : parts) names.push_back(layer.name);
  return names;
}

size_t Place(const std::vector<LayerParts>& parts, const std::string& name) {
  const std::vector<std::string> names = NamesOf(parts);
  const auto at = std::find(names.begin(), names.end(), name);
  EXPECT_NE(at, names.end()) << name;
  return static_cast<size_t>(at - names.begin());
}

TEST(Shortcuts, OpenedAndClosedAreTheSameNetwork) {
  const nn::Model model = Shortcuts2();
  const std::vector<LayerParts> parts = TakeApart(model.network, Shortcuts::kOpened);
  for (const char* name : {"outer", "outer.own", "outer.residual1.affine1", "outer.affine1"}) Place(parts, name);
  EXPECT_EQ(parts[Place(parts, "outer.residual1.affine1")].inside, "outer.residual1");
  EXPECT_GT(parts.size(), TakeApart(model.network).size() + 6);
  const nn::Network again = PutTogether(parts, kInputs);
  EXPECT_EQ(again.ToToml(), model.network.ToToml());
  EXPECT_EQ(again.Hash(), model.network.Hash());
}

// What the opened layers see is what they see in the network: the layers up to one of them, as a chain of their own,
// give its inputs.
TEST(Shortcuts, StatisticsAreOfTheLayersInside) {
  const nn::Model model = Shortcuts2();
  const std::vector<LayerParts> parts = TakeApart(model.network, Shortcuts::kOpened);
  FixedFrames frames(kInputs);
  const size_t outer = Place(parts, "outer");
  std::vector<LayerParts> way = TakeApart(model.network);
  way.resize(Place(way, "outer"));
  LayerParts own = parts[outer + 1];
  own.inside.clear();
  own.name = "own";
  way.push_back(own);
  const Matrix expected = Output(PutTogether(way, kInputs), frames.first());
  bool seen = false;
  ForLayers(model.network, Shortcuts::kOpened, frames, [&](size_t i, ConstMatrixView x, ConstMatrixView y) {
    if (nn::IsDense(parts[i])) {
      EXPECT_EQ(x.cols(), parts[i].weight().cols()) << parts[i].name;
      EXPECT_EQ(y.cols(), parts[i].weight().rows()) << parts[i].name;
    }
    if (i != Place(parts, "outer.residual1") || seen) return;
    seen = true;
    EXPECT_EQ(LargestDifference(Matrix(x), expected), 0) << "the input of the inner shortcut is what 'own' gives";
  });
  EXPECT_TRUE(seen);
}

TEST(Shortcuts, AllWeightsInsideAreRounded) {
  nn::Model model = Shortcuts2();
  FixedFrames frames(kInputs);
  const Matrix before = Output(model.network, frames.first());
  const NetworkSize size = SizeOf(model.network);
  const Changes changes = Apply("quantize", "fold = false", model, &frames);
  for (const LayerParts& layer : TakeApart(model.network, Shortcuts::kOpened)) {
    if (!nn::IsDense(layer)) continue;
    EXPECT_EQ(layer.type, "quantized-affine") << layer.name;
    EXPECT_TRUE(std::ranges::any_of(changes, [&](const Change& c) { return c.layer == layer.name; })) << layer.name;
  }
  EXPECT_LT(SizeOf(model.network).bytes, size.bytes / 2);
  const Matrix after = Output(model.network, frames.first());
  EXPECT_GT(LargestDifference(before, after), 0);
  EXPECT_LT(LargestDifference(before, after), 0.1 * LargestDifference(before, Matrix(before.rows(), before.cols())));
}

TEST(Shortcuts, LayersInsideAreNamed) {
  nn::Model model = Shortcuts2();
  const std::vector<LayerParts> before = TakeApart(model.network, Shortcuts::kOpened);
  const Changes changes = Apply("prune", "layers = ['outer.residual1.affine1']\nsparsity = 0.5", model);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].layer, "outer.residual1.affine1");
  const std::vector<LayerParts> after = TakeApart(model.network, Shortcuts::kOpened);
  ASSERT_EQ(NamesOf(after), NamesOf(before));
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].type, before[i].name == changes[0].layer ? "sparse-affine" : before[i].type);
  }
}

TEST(Shortcuts, SvdSplitsLayersWhereTheyStand) {
  nn::Model model = Shortcuts2();
  FixedFrames frames(kInputs);
  Apply("svd", "rank = 8\nlayers = ['outer.affine1']", model, &frames);
  const std::vector<LayerParts> parts = TakeApart(model.network, Shortcuts::kOpened);
  const size_t place = Place(parts, "outer.affine1");
  EXPECT_EQ(parts[place - 1].name, "outer.affine1-in");
  EXPECT_EQ(parts[place].weight().cols(), 8);
}

}  // namespace
}  // namespace antiphon::compress
