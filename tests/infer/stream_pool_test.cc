#include "infer/stream_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <thread>

#include "base/random.h"
#include "infer/pooled_scorer.h"
#include "nn/layer.h"

namespace antiphon::infer {
namespace {

// Passes its input on; has no memory for loud frames.
class BrittleLayer : public nn::Layer {
 public:
  explicit BrittleLayer(const nn::LayerArgs& args) : Layer(args.in_dim, args.in_dim) {}
  Config ToConfig() const override { return Config(); }

 protected:
  void DoForward(const nn::ExecContext&, ConstMatrixView x, MatrixView y, nn::Workspace&) const override {
    for (int64_t r = 0; r < x.rows(); ++r) {
      if (x(r, 0) > 1000) throw std::bad_alloc();
      std::copy(x.Row(r).begin(), x.Row(r).end(), y.Row(r).begin());
    }
  }
  void DoBackward(const nn::ExecContext&, ConstMatrixView, nn::Workspace&, MatrixView, nn::GradientSink&) override {}
};
REGISTER_COMPONENT(nn::LayerRegistry, "brittle",
                   [](const nn::LayerArgs& args) { return std::make_unique<BrittleLayer>(args); });

std::shared_ptr<const NnetModel> ToyNnetModel(bool lazy = false) {
  nn::Model model;
  model.feature_dim = 3;
  model.left_context = 2;
  model.right_context = 1;
  model.network = nn::Network(
      Config::Parse("[[layer]]\ntype='affine'\ndim=8\n[[layer]]\ntype='relu'\n[[layer]]\ntype='affine'\ndim=5\n",
                    "net.toml"),
      12, 5, 1);
  NnetScorerOptions options;
  options.precision = "int8";
  options.prior_scale = 0;
  options.lazy = lazy;
  return std::make_shared<const NnetModel>(std::move(model), options);
}

Matrix FramesOfStream(int count, uint64_t seed) {
  Rng rng(seed);
  Matrix frames(count, 3);
  for (int64_t i = 0; i < frames.size(); ++i) frames.data()[i] = static_cast<float>(rng.Normal());
  return frames;
}

std::vector<std::vector<float>> TakeAll(StreamPool& pool, int stream) {
  std::vector<std::vector<float>> scores;
  pool.Take(stream, [&](std::span<const float> row, double) { scores.emplace_back(row.begin(), row.end()); });
  return scores;
}

void ExpectOffline(const std::shared_ptr<const NnetModel>& model, const Matrix& frames,
                   const std::vector<std::vector<float>>& scores) {
  NnetScorer offline(model, frames);
  ASSERT_EQ(std::ssize(scores), frames.rows());
  for (size_t t = 0; t < scores.size(); ++t) {
    for (int s = 0; s < 5; ++s) EXPECT_EQ(scores[t][s], offline.LogLikelihood(static_cast<int>(t), s)) << t;
  }
}

TEST(StreamPool, GivesEveryStreamTheScoresThatItHasAlone) {
  const auto model = ToyNnetModel();
  StreamPool pool(model, {.max_streams = 7, .batch = 5, .deadline_s = 1e9});
  Rng rng(4);
  std::vector<Matrix> frames;
  std::vector<int> ids, at(7, 0);
  for (int i = 0; i < 7; ++i) {
    frames.push_back(FramesOfStream(10 + 3 * i, static_cast<uint64_t>(i)));
    ids.push_back(pool.Open());
  }
  std::vector<std::vector<std::vector<float>>> scores(7);
  for (bool more = true; more;) {
    more = false;
    for (size_t i = 0; i < 7; ++i) {
      const int count = std::min(static_cast<int>(rng.Below(4)), static_cast<int>(frames[i].rows()) - at[i]);
      pool.Accept(ids[i], frames[i].view().Rows(at[i], count), 0.0);
      at[i] += count;
      if (at[i] < frames[i].rows()) {
        more = true;
      }
    }
    pool.RunBatch(0.0);
  }
  for (const int id : ids) pool.Finish(id);
  // Two workers end it.
  std::thread other([&] {
    while (pool.RunBatch(0.0) > 0) {
    }
  });
  while (pool.RunBatch(0.0) > 0) {
  }
  other.join();
  while (pool.RunBatch(0.0) > 0) {
  }
  for (size_t i = 0; i < 7; ++i) ExpectOffline(model, frames[i], TakeAll(pool, ids[i]));
}

TEST(StreamPool, ComputesOnlyTheOutputsThatSearchesAskFor) {
  const auto alone = ToyNnetModel(true), shared = ToyNnetModel(true);
  StreamPool pool(shared, {.max_streams = 3, .batch = 4, .deadline_s = 1e9});
  std::vector<Matrix> frames;
  std::vector<int> ids;
  std::vector<std::unique_ptr<PooledScorer>> pooled;
  for (int i = 0; i < 3; ++i) {
    frames.push_back(FramesOfStream(20 + i, static_cast<uint64_t>(i)));
    ids.push_back(pool.Open());
    pooled.push_back(std::make_unique<PooledScorer>(pool, ids.back()));
    pool.Accept(ids.back(), frames.back(), 0.0);
    pool.Finish(ids.back());
  }
  EXPECT_THROW(pool.Take(ids[0], [](std::span<const float>, double) {}), UsageError);
  std::vector<int> at(3, 0);
  while (pool.RunBatch(0.0) > 0) {
    for (size_t i = 0; i < 3; ++i) {
      pooled[i]->Fetch();
      NnetScorer offline(alone, frames[i]);
      for (; at[i] < pooled[i]->num_frames_ready(); ++at[i]) {
        const int32_t wanted[] = {at[i] / 3 % 5};
        pooled[i]->Request(at[i], wanted);
        EXPECT_EQ(pooled[i]->LogLikelihood(at[i], wanted[0]), offline.LogLikelihood(at[i], wanted[0])) << at[i];
        EXPECT_TRUE(pooled[i]->DenseFrame(at[i]).empty());
        EXPECT_EQ(pooled[i]->IsLastFrame(at[i]), at[i] == frames[i].rows() - 1);
      }
    }
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(at[i], frames[i].rows());
  pooled.clear();
  EXPECT_LT(shared->computed_share(), 0.5);
}

TEST(StreamPool, HandsDenseScoresToASearch) {
  const auto model = ToyNnetModel();
  StreamPool pool(model, {.max_streams = 1, .batch = 3, .deadline_s = 1e9});
  const Matrix frames = FramesOfStream(11, 1);
  PooledScorer pooled(pool, pool.Open());
  pool.Accept(0, frames, 0.0);
  pool.Finish(0);
  NnetScorer offline(model, frames);
  for (int t = 0; t < frames.rows(); ++t) {
    while (t >= pooled.num_frames_ready()) {
      ASSERT_GT(pool.RunBatch(0.0), 0);
      pooled.Fetch();
    }
    EXPECT_EQ(pooled.DenseFrame(t)[2], offline.LogLikelihood(t, 2));
  }
}

TEST(StreamPool, ScoresSeveralFramesAtOnceAsAlone) {
  for (const int heads : {1, 2, 3}) {
    for (const int skip : {1, 2}) {
      if (heads > 1 && skip > 1) continue;  // refused by the model
      nn::Model toy;
      toy.feature_dim = 3;
      toy.left_context = 2;
      toy.right_context = 1;
      toy.frames_per_forward = heads;
      toy.first_frame_offset = heads == 3 ? -1 : 0;
      toy.network = nn::Network(Config::Parse("layer = [{type='affine',dim=8},{type='relu'},{type='affine'}]", "net"),
                                12, 5 * heads, 1);
      NnetScorerOptions options;
      options.prior_scale = 0;
      options.frame_skip = skip;
      const auto model = std::make_shared<const NnetModel>(std::move(toy), options);
      StreamPool pool(model, {.max_streams = 3, .batch = 4, .deadline_s = 1e9});
      std::vector<Matrix> frames;
      std::vector<int> ids;
      for (int i = 0; i < 3; ++i) {
        frames.push_back(FramesOfStream(1 + 10 * i, static_cast<uint64_t>(i)));
        ids.push_back(pool.Open());
      }
      for (int64_t t = 0; t < 21; ++t) {
        for (size_t i = 0; i < 3; ++i) {
          if (t < frames[i].rows()) pool.Accept(ids[i], frames[i].view().Rows(t, 1), 0.0);
        }
        if (t % 3 == 0) pool.RunBatch(0.0);
      }
      for (const int id : ids) pool.Finish(id);
      while (pool.RunBatch(0.0) > 0) {
      }
      for (size_t i = 0; i < 3; ++i) {
        SCOPED_TRACE(::testing::Message() << heads << " heads, skip " << skip << ", stream " << i);
        ExpectOffline(model, frames[i], TakeAll(pool, ids[i]));
        EXPECT_EQ(pool.stats(ids[i]).evaluations, (frames[i].rows() + heads * skip - 1) / (heads * skip));
      }
    }
  }
}

TEST(StreamPool, TakesTheEarliestDeadlineFirst) {
  StreamPool pool(ToyNnetModel(), {.max_streams = 2, .batch = 2, .deadline_s = 10});
  const int late = pool.Open(), early = pool.Open();
  pool.Accept(late, FramesOfStream(4, 1), 5.0);
  pool.Accept(early, FramesOfStream(4, 2), 1.0);
  EXPECT_EQ(pool.RunBatch(5.0), 2);
  EXPECT_EQ(TakeAll(pool, early).size(), 2U);
  EXPECT_EQ(TakeAll(pool, late).size(), 0U);
}

TEST(StreamPool, SkipsFramesRatherThanFallBehind) {
  const auto model = ToyNnetModel();
  StreamPool pool(model, {.max_streams = 1, .batch = 1, .deadline_s = 0.1});
  const int id = pool.Open();
  const Matrix frames = FramesOfStream(21, 3);
  pool.Accept(id, frames, 0.0);
  EXPECT_EQ(pool.RunBatch(0.05), 1);  // in time
  EXPECT_EQ(pool.RunBatch(0.15), 2);  // overdue
  EXPECT_EQ(pool.RunBatch(0.35), 4);  // far overdue
  const auto scores = TakeAll(pool, id);
  ASSERT_EQ(scores.size(), 7U);
  EXPECT_EQ(scores[1], scores[2]);
  EXPECT_NE(scores[2], scores[3]);
  EXPECT_EQ(scores[3], scores[6]);
  EXPECT_EQ(pool.stats(id).frames, 7);
  EXPECT_EQ(pool.stats(id).evaluations, 3);
}

TEST(StreamPool, RefusesStreamsAndBadFramesWhileOthersGoOn) {
  const auto model = ToyNnetModel();
  StreamPool pool(model, {.max_streams = 2, .batch = 4, .deadline_s = 1e9});
  const int good = pool.Open(), bad = pool.Open();
  EXPECT_THROW(pool.Open(), OverloadError);
  const Matrix frames = FramesOfStream(9, 5);
  pool.Accept(good, frames, 0.0);
  EXPECT_THROW(pool.Accept(bad, Matrix(2, 4), 0.0), ShapeError);
  Matrix broken = FramesOfStream(2, 6);
  broken(1, 1) = NAN;
  EXPECT_THROW(pool.Accept(bad, broken, 0.0), InputError);
  pool.Close(bad);
  pool.Finish(good);
  while (pool.RunBatch(0.0) > 0) {
  }
  ExpectOffline(model, frames, TakeAll(pool, good));
  EXPECT_EQ(pool.num_streams(), 1);
  EXPECT_NO_THROW(pool.Open());
}

// Its frames are gone, so that its streams have a gap: they end, and only they.
TEST(StreamPool, ABatchThatFailsEndsItsStreamsAlone) {
  for (const std::string layers :
       {"{type='brittle'}, {type='affine', dim=8}, {type='relu'}", "{type='brittle'}, {type='gru', dim=8}"}) {
    SCOPED_TRACE(layers);
    nn::Model toy;
    toy.feature_dim = 3;
    toy.network = nn::Network(Config::Parse("layer = [" + layers + ", {type='affine'}]", "net"), 3, 5, 1);
    NnetScorerOptions options;
    options.prior_scale = 0;
    const auto model = std::make_shared<const NnetModel>(std::move(toy), options);
    StreamPool pool(model, {.max_streams = 2, .batch = 4, .deadline_s = 1e9});
    const int bad = pool.Open(), good = pool.Open();
    pool.Accept(bad, FramesOfStream(2, 5), 0.0);
    EXPECT_EQ(pool.RunBatch(0.0), 2);
    Matrix loud = FramesOfStream(4, 6);
    loud(1, 0) = 1e6F;
    pool.Accept(bad, loud, 1.0);
    const Matrix frames = FramesOfStream(9, 7);
    pool.Accept(good, frames, 2.0);
    pool.Finish(good);
    EXPECT_GT(pool.RunBatch(2.0), 0) << "the others' batches are to go on";
    while (pool.RunBatch(2.0) > 0) {
    }
    ExpectOffline(model, frames, TakeAll(pool, good));
    EXPECT_EQ(TakeAll(pool, bad).size(), 2U) << "what was scored before";
    try {
      TakeAll(pool, bad);
      ADD_FAILURE() << "nobody is told";
    } catch (const FailedStreamError& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kMemory) << e.what();
    }
    EXPECT_THROW(pool.Accept(bad, frames, 3.0), FailedStreamError);
    pool.Close(bad);
    const int next = pool.Open();
    pool.Accept(next, frames, 4.0);
    pool.Finish(next);
    while (pool.RunBatch(4.0) > 0) {
    }
    ExpectOffline(model, frames, TakeAll(pool, next));
  }
}

TEST(StreamPool, AdmitsAsManyStreamsAsAreMeasured) {
  const auto model = ToyNnetModel();
  const int one = MeasureCapacity(*model, {}, 1, 100, 0.8, 0.02);
  EXPECT_GE(one, 1);
  EXPECT_EQ(MeasureCapacity(*model, {}, 1, 1e12, 0.8, 0.02), 1);
  // A thousandth of the frames, of which some hundred times fewer would be enough for this.
  EXPECT_GT(MeasureCapacity(*model, {}, 1, 1, 0.8, 0.02), 3 * MeasureCapacity(*model, {}, 1, 1000, 0.8, 0.02));
  StreamPool pool(model, {.max_streams = 1});
  pool.Open();
  EXPECT_THROW(pool.Open(), OverloadError);
}

TEST(StreamPool, HoldsNoMoreThanItNeeds) {
  StreamPool pool(ToyNnetModel(), {.max_streams = 1, .batch = 8, .deadline_s = 1e9});
  const int id = pool.Open();
  size_t most = 0;
  for (int i = 0; i < 2000; ++i) {
    pool.Accept(id, FramesOfStream(8, static_cast<uint64_t>(i)), i);
    while (pool.RunBatch(i) > 0) {
    }
    TakeAll(pool, id);
    if (i == 10) most = pool.bytes(id);
    if (i > 10) {
      EXPECT_LE(pool.bytes(id), most + 64);
    }
  }
}

}  // namespace
}  // namespace antiphon::infer
