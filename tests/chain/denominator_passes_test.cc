#include "chain/denominator_passes.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/file.h"
#include "toy_chain.h"

namespace antiphon::chain {
namespace {

using testing::DenominatorByEnumeration;
using testing::RandomOutputs;

constexpr int64_t kChunks = 5;

DenominatorPasses::Lanes FiveLanes() {
  DenominatorPasses::Lanes lanes;
  lanes.rows_per_output = kChunks;
  for (size_t l = 0; l < kChunks; ++l) {
    lanes.outputs[l] = l == 3 ? 2 : 4;
    lanes.scale[l] = 1.0F;
  }
  lanes.outputs[1] = 0;
  return lanes;
}

TEST(DenominatorPasses, AreTheSumOverAllWalks) {
  const DenominatorGraph graph = testing::SmallGraph();
  const DenominatorPasses passes(graph);
  const Matrix y = RandomOutputs(4 * kChunks, graph.num_pdfs(), 3.0, 7);
  for (const float leak : {0.0F, 0.1F, 0.7F}) {
    DenominatorPasses::Scratch scratch;
    const auto lanes = FiveLanes();
    const auto sums = passes.Run(y, lanes, {leak}, {}, &scratch);
    for (size_t l = 0; l < kChunks; ++l) {
      const auto score = [&](int t, int32_t pdf) {
        return static_cast<double>(y(t * kChunks + static_cast<int64_t>(l), pdf));
      };
      const double expected =
          lanes.outputs[l] == 0 ? 0.0 : DenominatorByEnumeration(graph, lanes.outputs[l], leak, score);
      EXPECT_NEAR(sums[l].log_sum, expected, 2e-6 * (1 + std::abs(expected))) << "lane " << l << " leak " << leak;
    }
  }
}

TEST(DenominatorPasses, OccupanciesAreTheDerivatives) {
  const DenominatorGraph graph = testing::SmallGraph();
  const DenominatorPasses passes(graph);
  const Matrix y = RandomOutputs(4 * kChunks, graph.num_pdfs(), 2.0, 8);
  for (const float leak : {0.0F, 0.1F}) {
    DenominatorPasses::Scratch scratch;
    const auto lanes = FiveLanes();
    Matrix gamma(y.rows(), y.cols());
    OutputTerms terms{leak};
    passes.Run(y, lanes, terms, gamma, &scratch);
    for (int64_t l = 0; l < kChunks; ++l) {
      for (int64_t t = 0; t < 4; ++t) {
        const int64_t row = t * kChunks + l;
        double sum = 0;
        for (int32_t pdf = 0; pdf < graph.num_pdfs(); ++pdf) {
          const int outputs = lanes.outputs[static_cast<size_t>(l)];
          if (t >= outputs) {
            EXPECT_EQ(gamma(row, pdf), 0.0F);
            continue;
          }
          const auto at = [&](double change) {
            return DenominatorByEnumeration(graph, outputs, leak, [&](int u, int32_t p) {
              return static_cast<double>(y(u * kChunks + l, p)) + (u == t && p == pdf ? change : 0.0);
            });
          };
          EXPECT_NEAR(gamma(row, pdf), (at(1e-4) - at(-1e-4)) / 2e-4, 2e-6) << row << " " << pdf;
          sum += static_cast<double>(gamma(row, pdf));
        }
        EXPECT_NEAR(sum, t < lanes.outputs[static_cast<size_t>(l)] ? 1.0 : 0.0, 1e-5);
      }
    }
  }
}

TEST(DenominatorPasses, OutputsBeyondTheLimitCountAsTheLimitAndArePenalised) {
  const DenominatorGraph graph = testing::SmallGraph();
  const DenominatorPasses passes(graph);
  Matrix y = RandomOutputs(4 * kChunks, graph.num_pdfs(), 2.0, 9), limited = y;
  y(0, 1) = 33.0F;
  y(5, 6) = -42.0F;
  limited(0, 1) = 30.0F;
  limited(5, 6) = -30.0F;
  DenominatorPasses::Scratch scratch;
  auto lanes = FiveLanes();
  lanes.scale[0] = 0.5F;
  const OutputTerms terms{0.1F, 30.0F, 0.001F, 0.01F};
  Matrix beyond(y.rows(), y.cols()), within(y.rows(), y.cols());
  const auto sums = passes.Run(y, lanes, terms, beyond, &scratch);
  const auto limited_sums = passes.Run(limited, lanes, terms, within, &scratch);
  EXPECT_EQ(sums[0].log_sum, limited_sums[0].log_sum);
  EXPECT_NEAR(sums[0].excess, 9.0 + 144.0, 1e-3);
  EXPECT_EQ(limited_sums[0].excess, 0.0);
  EXPECT_NEAR(beyond(0, 1) - within(0, 1), 0.5 * (0.01 * 3 + 0.001 * 3), 1e-6);
  EXPECT_NEAR(beyond(5, 6) - within(5, 6), 0.5 * (0.01 * -12 + 0.001 * -12), 1e-6);
  double squares = 0;
  for (int64_t t = 0; t < 4; ++t) {
    for (const float v : y.Row(t * kChunks)) squares += static_cast<double>(v * v);
  }
  EXPECT_NEAR(sums[0].squares, squares, 1e-3);
}

TEST(DenominatorPasses, StayFiniteOverLongChunksOfLargeOutputs) {
  const DenominatorGraph graph = testing::SmallGraph();
  const DenominatorPasses passes(graph);
  const Matrix y = RandomOutputs(300, graph.num_pdfs(), 30.0, 10);
  DenominatorPasses::Lanes lanes;
  lanes.rows_per_output = 1;
  lanes.outputs[0] = 300;
  lanes.scale[0] = 1;
  DenominatorPasses::Scratch scratch;
  Matrix gamma(300, graph.num_pdfs());
  const auto sums = passes.Run(y, lanes, {}, gamma, &scratch);
  EXPECT_TRUE(std::isfinite(sums[0].log_sum));
  for (int64_t t = 0; t < 300; ++t) {
    double sum = 0;
    for (const float v : gamma.Row(t)) sum += static_cast<double>(v);
    ASSERT_NEAR(sum, 1.0, 1e-3) << t;
  }
}

// This program runs once more under each older instruction set (tests/CMakeLists.txt): the bits are the same on all.
TEST(DenominatorPasses, GiveTheSameBitsOnEveryInstructionSet) {
  const DenominatorGraph graph = testing::SmallGraph();
  const DenominatorPasses passes(graph);
  const Matrix y = RandomOutputs(20 * kLanes, graph.num_pdfs(), 4.0, 11);
  DenominatorPasses::Lanes lanes;
  lanes.rows_per_output = kLanes;
  lanes.outputs.fill(20);
  lanes.scale.fill(0.25F);
  DenominatorPasses::Scratch scratch;
  Matrix gamma(y.rows(), y.cols());
  passes.Run(y, lanes, {0.1F, 30.0F, 0.001F, 0.01F}, gamma, &scratch);
  const auto bytes = std::as_bytes(std::span<const float>(gamma.data(), static_cast<size_t>(gamma.size())));
  EXPECT_EQ(Checksum(bytes), 16507035224096310442ULL);
}

}  // namespace
}  // namespace antiphon::chain
