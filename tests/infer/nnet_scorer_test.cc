#include "infer/nnet_scorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "base/error.h"
#include "base/random.h"

namespace antiphon::infer {
namespace {

using ::testing::HasSubstr;

nn::Model ToyModel() {
  nn::Model model;
  model.feature_dim = 3;
  model.left_context = 2;
  model.right_context = 1;
  model.network = nn::Network(
      Config::Parse("[[layer]]\ntype='affine'\ndim=8\n[[layer]]\ntype='relu'\n[[layer]]\ntype='affine'\ndim=5\n",
                    "net.toml"),
      12, 5, 1);
  model.log_priors = {std::log(0.1F), std::log(0.2F), std::log(0.3F), std::log(0.4F), std::log(1e-12F)};
  return model;
}

Matrix RandomFrames(int count, uint64_t seed = 3) {
  Rng rng(seed);
  Matrix frames(count, 3);
  for (int n = 0; n < count; ++n) {
    for (float& value : frames.Row(n)) value = static_cast<float>(rng.Normal());
  }
  return frames;
}

std::shared_ptr<const NnetModel> Shared(NnetScorerOptions options = {}) {
  return std::make_shared<const NnetModel>(ToyModel(), options);
}

TEST(NnetScorer, GivesPosteriorsWithoutPriors) {
  NnetScorerOptions options;
  options.prior_scale = 0.5;
  const Matrix frames = RandomFrames(7);
  NnetScorer scorer(Shared(options), frames);
  const nn::Model model = ToyModel();
  for (int t = 0; t < 7; ++t) {
    Matrix spliced(1, 12);
    for (int k = -2; k <= 1; ++k) {
      const int from = std::clamp(t + k, 0, 6);
      for (int d = 0; d < 3; ++d) spliced(0, (k + 2) * 3 + d) = frames(from, d);
    }
    nn::Workspace workspace;
    const MatrixView logits = model.network.Forward({}, spliced, workspace);
    double sum = 0.0;
    for (int s = 0; s < 5; ++s) sum += std::exp(static_cast<double>(logits(0, s)));
    for (int s = 0; s < 4; ++s) {
      EXPECT_NEAR(scorer.LogLikelihood(t, s), logits(0, s) - std::log(sum) - 0.5 * model.log_priors[s], 1e-4);
    }
    EXPECT_EQ(scorer.LogLikelihood(t, 4), kDisabledScore);
  }
}

TEST(NnetScorer, DoesNotDependOnBlocksOrOrder) {
  const Matrix frames = RandomFrames(50);
  NnetScorer whole(Shared(), frames);
  for (const int block : {1, 7, 16}) {
    NnetScorerOptions options;
    options.block_frames = block;
    NnetScorer parts(Shared(options), frames);
    for (const int t : {49, 0, 1, 2, 30, 8}) {
      for (int s = 0; s < 5; ++s) EXPECT_NEAR(parts.DenseFrame(t)[s], whole.DenseFrame(t)[s], 1e-5);
    }
  }
}

TEST(NnetScorer, SharesTheModelBetweenThreads) {
  const auto model = Shared();
  std::vector<float> results(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < results.size(); ++i) {
    threads.emplace_back([&, i] {
      NnetScorer scorer(model, RandomFrames(300));
      for (int t = 0; t < 300; ++t) results[i] += scorer.DenseFrame(t)[1];
    });
  }
  for (auto& thread : threads) thread.join();
  for (const float result : results) EXPECT_EQ(result, results[0]);
}

// Log-likelihoods as a search would ask for them, frame by frame, with the frames coming in pieces.
Matrix InPieces(const std::shared_ptr<const NnetModel>& model, const Matrix& frames, uint64_t seed) {
  NnetScorer scorer(model);
  Rng rng(seed);
  Matrix scores(frames.rows(), model->num_pdfs());
  int taken = 0;
  const auto take = [&] {
    for (; taken < scorer.num_frames_ready(); ++taken) {
      EXPECT_EQ(scorer.IsLastFrame(taken), taken == frames.rows() - 1);
      for (int s = 0; s < model->num_pdfs(); ++s) scores(taken, s) = scorer.LogLikelihood(taken, s);
    }
  };
  for (int64_t at = 0; at < frames.rows();) {
    const auto count = std::min<int64_t>(frames.rows() - at, static_cast<int64_t>(rng.Below(9)));
    scorer.Accept(frames.view().Rows(at, count));
    at += count;
    if (at < frames.rows()) take();
  }
  scorer.Finish();
  take();
  EXPECT_EQ(taken, frames.rows());
  return scores;
}

TEST(NnetScorer, GivesTheSameBitsHoweverTheFramesCome) {
  for (const bool lazy : {false, true}) {
    for (const int skip : {1, 3}) {
      NnetScorerOptions options;
      options.precision = "int8";
      options.block_frames = 5;
      options.lazy = lazy;
      options.lazy_block = 3;
      options.lazy_dense_share = 0.9;
      options.frame_skip = skip;
      const auto model = Shared(options);
      for (const int length : {1, 2, 31}) {
        const Matrix frames = RandomFrames(length);
        NnetScorer whole(model, frames);
        for (uint64_t seed = 0; seed < 5; ++seed) {
          const Matrix pieces = InPieces(model, frames, seed);
          for (int t = 0; t < length; ++t) {
            for (int s = 0; s < 5; ++s) EXPECT_EQ(pieces(t, s), whole.LogLikelihood(t, s));
          }
        }
      }
    }
  }
}

TEST(NnetScorer, SkipsFramesAndCopiesTheirScores) {
  NnetScorerOptions options;
  const Matrix frames = RandomFrames(14);
  NnetScorer every(Shared(options), frames);
  options.frame_skip = 4;
  NnetScorer some(Shared(options), frames);
  EXPECT_EQ(some.num_frames_ready(), 14);
  for (int t = 0; t < 14; ++t) {
    for (int s = 0; s < 5; ++s) EXPECT_EQ(some.LogLikelihood(t, s), every.LogLikelihood(t / 4 * 4, s));
  }
}

TEST(NnetScorer, GivesEachHeadItsFrame) {
  for (const int offset : {-1, 0}) {
    const auto make = [&] {
      nn::Model model = ToyModel();
      model.network = nn::Network(Config::Parse("[[layer]]\ntype='affine'\ndim=15\n", "net.toml"), 12, 15, 1);
      model.frames_per_forward = 3;
      model.first_frame_offset = offset;
      return model;
    };
    const Matrix frames = RandomFrames(11);
    const auto model = std::make_shared<const NnetModel>(make(), NnetScorerOptions());
    EXPECT_EQ(model->num_pdfs(), 5);
    NnetScorer scorer(model, frames);
    EXPECT_EQ(scorer.num_frames_ready(), 11);
    const nn::Model reference = make();
    for (int t = 0; t < 11; ++t) {
      const int head = t % 3, centre = t - head - offset;
      Matrix spliced(1, 12);
      for (int k = -2; k <= 1; ++k) {
        for (int d = 0; d < 3; ++d) spliced(0, (k + 2) * 3 + d) = frames(std::clamp(centre + k, 0, 10), d);
      }
      nn::Workspace workspace;
      const MatrixView logits = reference.network.Forward({}, spliced, workspace);
      double sum = 0;
      for (int s = 0; s < 5; ++s) sum += std::exp(static_cast<double>(logits(0, 5 * head + s)));
      for (int s = 0; s < 4; ++s) {
        const double expected = logits(0, 5 * head + s) - std::log(sum) - reference.log_priors[static_cast<size_t>(s)];
        EXPECT_NEAR(scorer.LogLikelihood(t, s), expected, 1e-4) << t;
      }
    }
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const Matrix pieces = InPieces(model, frames, seed);
      for (int t = 0; t < 11; ++t) {
        for (int s = 0; s < 5; ++s) EXPECT_EQ(pieces(t, s), scorer.LogLikelihood(t, s));
      }
    }
    NnetScorerOptions skipping;
    skipping.frame_skip = 2;
    EXPECT_THROW(NnetModel(make(), skipping), UsageError);
  }
}

TEST(NnetScorer, ComputesWhatIsAskedForWithTheSameBits) {
  NnetScorerOptions options;
  options.precision = "int8";
  options.log_softmax = false;
  const Matrix frames = RandomFrames(23);
  NnetScorer dense(Shared(options), frames);
  for (const double dense_share : {0.3, 1.0}) {
    options.lazy = true;
    options.lazy_block = 4;
    options.lazy_dense_share = dense_share;
    const auto model = Shared(options);
    {
      NnetScorer lazy(model, frames);
      EXPECT_TRUE(lazy.DenseFrame(0).empty());
      Rng rng(7);
      for (int t = 0; t < 23; ++t) {
        const std::vector<int32_t> wanted = {static_cast<int32_t>(rng.Below(2)), 3};
        lazy.Request(t, wanted);
        for (const int32_t s : wanted) EXPECT_EQ(lazy.LogLikelihood(t, s), dense.LogLikelihood(t, s));
        EXPECT_EQ(lazy.LogLikelihood(t, 4), kDisabledScore);
      }
    }
    if (dense_share == 1.0) {
      EXPECT_LT(model->computed_share(), 1.0);
    }
    EXPECT_GE(model->computed_share(), 0.5);
  }
  options.precision = "fp32";
  EXPECT_THROW(Shared(options), UsageError);
}

TEST(NnetScorer, NamesWhatDoesNotFit) {
  EXPECT_EQ(NnetScorer(Shared(), Matrix(0, 3)).num_frames_ready(), 0);
  try {
    NnetScorer(Shared(), Matrix(5, 4));
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_THAT(e.what(), HasSubstr("takes 3 values per frame, the features have 4"));
  }
  nn::Model without = ToyModel();
  without.log_priors.clear();
  EXPECT_THROW(NnetModel(std::move(without), {}), InputError);
}

}  // namespace
}  // namespace antiphon::infer
