// Steps along gradients that layers give in fewer multiplications (nn/shifted_product.h).
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/elementwise.h"
#include "nn/network.h"
#include "nn/shifted_product.h"
#include "optim/optimizer.h"
#include "random_matrix.h"

namespace antiphon::optim {
namespace {

using testing::RandomMatrix;

// What three steps towards given outputs change in the outputs.
Matrix Change(const std::string& between, const std::string& options) {
  constexpr int kStreams = 24, kFrames = 60, kDim = 256;
  nn::Network net(
      Config::Parse("layer = [{type='splice', offsets=[-2, 0, 2]}, " + between + "{type='affine', dim=256}]", "test"),
      kDim, 0, 1);
  for (nn::Parameter* p : net.parameters()) {
    Scale(0.03f, RandomMatrix(p->value.rows(), p->value.cols(), 7), p->value);
  }
  net.MarkChanged();
  const auto optimizer = MakeOptimizer(Config::Parse(options, "test"), net);
  const SequenceLayout layout{.streams = kStreams};
  nn::ExecContext ctx;
  ctx.sequences = &layout;
  ctx.training = true;
  nn::Workspace ws;
  const Matrix x = RandomMatrix(kStreams * kFrames, kDim, 1);
  const Matrix before(ConstMatrixView(net.Forward(ctx, x, ws)));
  const Matrix targets = RandomMatrix(before.rows(), before.cols(), 2);
  for (ctx.step = 0; ctx.step < 3; ++ctx.step) {
    const MatrixView y = net.Forward(ctx, x, ws);
    Matrix dy{ConstMatrixView(y)};
    AddScaled(-1.0f, targets, dy);
    Scale(1.0f / static_cast<float>(y.rows()), dy, dy);
    optimizer->BeginStep(0.02);
    net.Backward(ctx, dy, ws, *optimizer, true);
    optimizer->EndStep();
    net.AfterStep(ctx.step);
  }
  if (between.empty()) {
    const nn::ShiftedBlocks blocks = net.layer(0).properties().output_blocks;
    EXPECT_TRUE(nn::ShiftedProduct::For(blocks, kStreams, ws.Child(1).x, net.out_dim()));
  }
  Matrix change(ConstMatrixView(net.Forward(ctx, x, ws)));
  AddScaled(-1.0f, before, change);
  return change;
}

TEST(ShiftedSteps, AreThoseOfPlainGradients) {
  for (const char* options : {"type='sgd'", "type='sgd'\nweight-decay=0.1", "type='sgd'\nmomentum=0.9",
                              "type='sgd'\nmax-change=0.05", "type='adam'", "type='natural-gradient'"}) {
    const Matrix change = Change("", options), plain = Change("{type='dropout', proportion=0}, ", options);
    double squares = 0, difference = 0;
    for (int64_t i = 0; i < plain.size(); ++i) {
      squares += std::pow(static_cast<double>(plain.data()[i]), 2);
      difference += std::pow(static_cast<double>(plain.data()[i]) - static_cast<double>(change.data()[i]), 2);
    }
    EXPECT_GT(squares, 0) << options;
    EXPECT_LT(std::sqrt(difference / squares), 5e-3) << options;
  }
}

}  // namespace
}  // namespace antiphon::optim
