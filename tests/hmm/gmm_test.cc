#include "hmm/gmm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/error.h"
#include "hmm/feature_transform.h"
#include "hmm/gmm_model.h"
#include "hmm/gmm_training.h"
#include "temporary_folder.h"

namespace antiphon::hmm {
namespace {

Matrix RandomFrames(int rows, int cols, uint64_t seed, double spread = 1) {
  Rng rng(seed);
  Matrix m(rows, cols);
  for (int64_t i = 0; i < m.size(); ++i) m.data()[i] = static_cast<float>(spread * rng.Normal());
  return m;
}

GmmSet RandomGmm(const std::vector<int>& sizes, int dim, uint64_t seed) {
  Rng rng(seed);
  std::vector<int32_t> first = {0};
  std::vector<float> weights;
  for (const int n : sizes) {
    for (int g = 0; g < n; ++g) weights.push_back(1.0F / static_cast<float>(n));
    first.push_back(first.back() + n);
  }
  Matrix means = RandomFrames(first.back(), dim, seed + 1, 2);
  Matrix variances(first.back(), dim);
  for (int64_t i = 0; i < variances.size(); ++i) variances.data()[i] = static_cast<float>(0.3 + rng.Uniform());
  return {first, weights, means, variances};
}

double NaiveLogLikelihood(const GmmSet& gmm, int32_t pdf, std::span<const float> x) {
  double sum = 0;
  for (int g = gmm.FirstGaussian(pdf); g < gmm.FirstGaussian(pdf) + gmm.NumGaussians(pdf); ++g) {
    double log_density = std::log(static_cast<double>(gmm.weights()[static_cast<size_t>(g)]));
    for (size_t d = 0; d < x.size(); ++d) {
      const auto variance = static_cast<double>(gmm.variances().Row(g)[d]);
      const double distance = static_cast<double>(x[d]) - static_cast<double>(gmm.means().Row(g)[d]);
      log_density -= 0.5 * (std::log(2 * std::numbers::pi * variance) + distance * distance / variance);
    }
    sum += std::exp(log_density);
  }
  return std::log(sum);
}

TEST(GmmScorer, EqualsTheDefinition) {
  const GmmSet gmm = RandomGmm({1, 2, 3, 4, 5, 9}, 7, 1);
  const Matrix frames = RandomFrames(37, 7, 2);
  GmmScorer scorer(gmm, frames);
  for (int t = 0; t < 37; ++t) {
    for (int32_t pdf = 0; pdf < gmm.num_pdfs(); ++pdf)
      EXPECT_NEAR(scorer.LogLikelihood(t, pdf), NaiveLogLikelihood(gmm, pdf, frames.Row(t)), 2e-3) << t << " " << pdf;
  }
  EXPECT_TRUE(scorer.IsLastFrame(36));
  EXPECT_THROW(GmmScorer(gmm, RandomFrames(3, 6, 1)), ShapeError);
}

TEST(GmmScorer, IsNotUpsetByFramesFarAway) {
  const GmmSet gmm = RandomGmm({3}, 4, 1);
  const Matrix frames = RandomFrames(5, 4, 2, 1000);
  GmmScorer scorer(gmm, frames);
  for (int t = 0; t < 5; ++t) EXPECT_TRUE(std::isfinite(scorer.LogLikelihood(t, 0)));
}

TEST(GmmTraining, LikelihoodNeverFalls) {
  Matrix frames = RandomFrames(4000, 3, 5);
  std::vector<int32_t> pdfs;
  for (int64_t t = 0; t < frames.rows(); ++t) {
    pdfs.push_back(static_cast<int32_t>(t / 2000));
    frames(t, 0) += t % 3 == 0 ? 4.0F : -4.0F;
    frames(t, 1) *= t % 3 == 0 ? 0.2F : 2.0F;
  }
  const FrameBlocks blocks(frames);
  const std::vector<float> zero(3, 0.0F);
  const std::vector<float> one(3, 10.0F);
  GmmSet gmm(2, zero, one);
  Rng rng(1);
  double last = -1e30;
  for (int iteration = 0; iteration < 40; ++iteration) {
    GmmStats stats(gmm);
    const double now = stats.Accumulate(gmm, frames, blocks, pdfs) / 4000;
    if (iteration != 4 && iteration != 16) {
      EXPECT_GE(now, last - 1e-6) << iteration;
    }
    last = now;
    gmm = Reestimate(gmm, stats, {});
    if (iteration == 3 || iteration == 15) {
      const std::vector<double> occupancy = {stats.PdfOccupancy(gmm, 0), stats.PdfOccupancy(gmm, 1)};
      gmm = MixUp(gmm, occupancy, iteration == 3 ? 7 : 11, 0.25, 20, rng);
      EXPECT_EQ(gmm.num_gaussians(), iteration == 3 ? 7 : 11);
    }
  }
  // The mixture of two clusters is better than any single Gaussian.
  EXPECT_GT(last, -5.0);
}

TEST(GmmTraining, ShardsAddUpToTheWhole) {
  const GmmSet gmm = RandomGmm({3, 2, 4}, 5, 3);
  const Matrix frames = RandomFrames(160, 5, 4);
  std::vector<int32_t> pdfs;
  for (int t = 0; t < 160; ++t) pdfs.push_back(t % 11 == 0 ? -1 : t / 20 % 3);
  GmmStats whole(gmm);
  whole.Accumulate(gmm, frames, FrameBlocks(frames), pdfs);
  GmmStats sum(gmm);
  for (int shard = 0; shard < 5; ++shard) {
    const ConstMatrixView part = frames.view().Rows(shard * 32, 32);
    GmmStats stats(gmm);
    stats.Accumulate(gmm, part, FrameBlocks(part), std::span(pdfs).subspan(static_cast<size_t>(shard) * 32, 32));
    sum.Add(stats);
  }
  EXPECT_NEAR(sum.log_likelihood(), whole.log_likelihood(), 1e-9 * std::abs(whole.log_likelihood()));
  EXPECT_EQ(sum.num_frames(), whole.num_frames());
  for (int64_t i = 0; i < whole.sums().size(); ++i)
    EXPECT_NEAR(sum.sums().data()[i], whole.sums().data()[i], 1e-9 * (1 + std::abs(whole.sums().data()[i])));
}

TEST(GmmTraining, KeepsWhatHasNoFramesAndDropsGaussiansThatStarve) {
  const GmmSet gmm = RandomGmm({2, 2}, 3, 3);
  Matrix frames(40, 3);
  for (int64_t t = 0; t < 40; ++t) {
    for (int64_t d = 0; d < 3; ++d) frames(t, d) = gmm.means()(0, d) + 0.01F * static_cast<float>(t % 5);
  }
  GmmStats stats(gmm);
  stats.Accumulate(gmm, frames, FrameBlocks(frames), std::vector<int32_t>(40, 0));
  GmmUpdateOptions options;
  options.min_occupancy = 15;
  const GmmSet next = Reestimate(gmm, stats, options);
  EXPECT_EQ(next.NumGaussians(0), 1);
  EXPECT_EQ(next.NumGaussians(1), 1);
  EXPECT_NEAR(next.variances()(0, 0), options.min_variance, 1e-6);
}

TEST(GmmTraining, MixesUpByOccupancyWithinLimits) {
  const std::vector<float> zero(2, 0.0F);
  const std::vector<float> one(2, 1.0F);
  const GmmSet gmm(3, zero, one);
  Rng rng(1);
  const std::vector<double> occupancy = {10000, 100, 25};
  const GmmSet mixed = MixUp(gmm, occupancy, 30, 0.25, 20, rng);
  EXPECT_EQ(mixed.num_gaussians(), 30);
  EXPECT_EQ(mixed.NumGaussians(2), 1);
  EXPECT_LE(mixed.NumGaussians(1), 5);
  EXPECT_GT(mixed.NumGaussians(0), 20);
}

TEST(FeatureTransform, DeltasAreRegressionsOverTheFramesAround) {
  Matrix ramp(20, 1);
  for (int64_t t = 0; t < 20; ++t) ramp(t, 0) = static_cast<float>(t * t);
  const Matrix out = FeatureTransform::Deltas(1).Apply(ramp);
  ASSERT_EQ(out.cols(), 3);
  EXPECT_NEAR(out(10, 0), 100, 1e-4);
  EXPECT_NEAR(out(10, 1), 20, 1e-4);  // slope of t² at 10
  EXPECT_NEAR(out(10, 2), 2, 1e-4);
}

TEST(FeatureTransform, ThenIsDoingOneAfterTheOther) {
  const Matrix frames = RandomFrames(11, 3, 1);
  const FeatureTransform first = FeatureTransform::Deltas(3);
  const Matrix affine = RandomFrames(4, 10, 2);
  const Matrix at_once = first.Then(affine).Apply(frames);
  const Matrix step = first.Apply(frames);
  for (int64_t t = 0; t < 11; ++t) {
    for (int64_t i = 0; i < 4; ++i) {
      double sum = static_cast<double>(affine(i, 9));
      for (int64_t j = 0; j < 9; ++j) sum += static_cast<double>(affine(i, j)) * static_cast<double>(step(t, j));
      EXPECT_NEAR(at_once(t, i), sum, 1e-3);
    }
  }
  EXPECT_THROW(first.Apply(RandomFrames(2, 4, 1)), ShapeError);
  EXPECT_EQ(first.Apply(Matrix(0, 3)).rows(), 0);
}

TEST(GmmModel, SurvivesItsFile) {
  const PhoneSet phones({"A", "B"}, {"SIL"}, false);
  const Topology topology(phones, {});
  GmmModel model;
  model.stage = "mono";
  model.hmm = HmmModel(phones, topology, ContextTree::Monophone(topology));
  model.transform = FeatureTransform::Deltas(2);
  model.gmm = RandomGmm(std::vector<int>(static_cast<size_t>(model.hmm.num_pdfs()), 2), 6, 1);
  model.first_pass = RandomGmm(std::vector<int>(static_cast<size_t>(model.hmm.num_pdfs()), 1), 6, 2);
  model.lexicon = "A A\n";
  const testing::TemporaryFolder folder;
  const auto path = folder.path() / "model.safetensors";
  model.Save(path);
  const GmmModel read = GmmModel::Load(path);
  EXPECT_EQ(read.hmm, model.hmm);
  EXPECT_EQ(read.gmm, model.gmm);
  EXPECT_EQ(*read.first_pass, *model.first_pass);
  EXPECT_EQ(read.stage, "mono");
  EXPECT_EQ(read.lexicon, model.lexicon);
  EXPECT_EQ(read.transform.left(), 4);
}

}  // namespace
}  // namespace antiphon::hmm
