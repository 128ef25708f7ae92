#include <gtest/gtest.h>

#include <vector>

#include "optim/optimizer.h"
#include "temporary_folder.h"

namespace antiphon::optim {
namespace {

nn::Network OneLayer() { return {Config::Parse("layer = [{type='linear'}]\n", "net.toml"), 3, 2, 1}; }

// One step along the same slope for every value; how far the values went against it.
float Moved(nn::Network& network, Optimizer& optimizer, float slope) {
  const float before = network.values()[0];
  const std::vector<float> gradient(network.num_values(), slope);
  optimizer.BeginStep(0.01);
  optimizer.TakeAll(network, gradient);
  optimizer.EndStep();
  return (before - network.values()[0]) / (slope > 0 ? 0.01f : -0.01f);
}

// What the steps remember of a direction belongs to parameters that are no more; how large gradients are does not.
TEST(Adam, ForgettingMomentumKeepsTheSizeOfGradients) {
  nn::Network network = OneLayer();
  const auto optimizer = MakeOptimizer(Config::Parse("type = \"adam\"\n", "optimizer"), network);
  for (int step = 0; step < 2000; ++step) Moved(network, *optimizer, 1);
  optimizer->ResetMomentum();
  EXPECT_NEAR(Moved(network, *optimizer, -0.05f), 0.05f, 2e-3f)
      << "neither the old direction nor a first step's length";
  optimizer->ResetState();
  EXPECT_NEAR(Moved(network, *optimizer, -0.05f), 1.0f, 1e-3f) << "a first step has the length of the rate";
}

TEST(Adam, GoesOnBitForBitAfterForgettingMomentum) {
  const testing::TemporaryFolder folder;
  nn::Network network = OneLayer();
  const auto make = [&] { return MakeOptimizer(Config::Parse("type = \"adam\"\n", "optimizer"), network); };
  const auto optimizer = make();
  for (int step = 0; step < 5; ++step) Moved(network, *optimizer, 1);
  optimizer->ResetMomentum();
  Moved(network, *optimizer, 0.5f);
  SafetensorsWriter writer;
  optimizer->SaveState(writer, "optimizer.");
  writer.Write(folder / "state.safetensors");
  const nn::Network then = network.Clone();
  Moved(network, *optimizer, 0.3f);
  const uint64_t whole = network.Hash();
  network.CopyFrom(then);
  const auto continued = make();
  continued->LoadState(SafetensorsReader(folder / "state.safetensors"), "optimizer.");
  Moved(network, *continued, 0.3f);
  EXPECT_EQ(network.Hash(), whole);
}

}  // namespace
}  // namespace antiphon::optim
