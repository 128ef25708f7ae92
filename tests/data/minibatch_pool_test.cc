#include "data/minibatch_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "base/error.h"
#include "store_fixture.h"

namespace antiphon::data {
namespace {

class MinibatchPoolTest : public ::testing::Test {
 protected:
  MinibatchPoolTest() {
    MakeStore(folder_ / "store", 60);
    store_ = std::make_shared<const FrameStore>(folder_ / "store");
    options_.minibatch = 32;
    options_.left_context = 2;
    options_.right_context = 1;
    options_.carry_state = false;
    options_.block_frames = 10;
    options_.shuffle_frames = 500;
  }
  std::shared_ptr<MinibatchPool> Pool(int world_size = 1, uint64_t seed = 1,
                                      std::vector<size_t> utterances = {}) const {
    return std::make_shared<MinibatchPool>(store_, options_, seed, world_size, std::move(utterances));
  }
  // Frame ids that all workers see in an epoch, through streams.
  static std::vector<int64_t> Frames(const std::shared_ptr<MinibatchPool>& pool, int64_t epoch) {
    std::vector<int64_t> frames;
    for (int rank = 0; rank < pool->world_size(); ++rank) {
      MinibatchStream stream(pool, rank, epoch);
      int64_t steps = 0;
      while (const Minibatch* m = stream.Next()) {
        std::copy_if(m->frame_ids.begin(), m->frame_ids.end(), std::back_inserter(frames),
                     [](int64_t id) { return id >= 0; });
        ++steps;
      }
      EXPECT_EQ(steps, pool->steps_per_epoch(epoch));
    }
    return frames;
  }

  ::antiphon::testing::TemporaryFolder folder_;
  std::shared_ptr<const FrameStore> store_;
  MinibatchOptions options_;
};

TEST_F(MinibatchPoolTest, TellsHowFullMinibatchesAre) {
  for (const Distribution distribution : {Distribution::kPool, Distribution::kShares}) {
    for (const int world : {1, 3}) {
      options_.distribution = distribution;
      const auto pool = Pool(world);
      const int shares = distribution == Distribution::kPool ? 1 : world;
      double frames = 0;
      for (int rank = 0; rank < shares; ++rank) {
        MinibatchBuffer buffer;
        for (int64_t m = 0; m < pool->num_minibatches(1, rank); ++m) {
          pool->Fill(1, rank, m, buffer);
          EXPECT_DOUBLE_EQ(pool->Fullness(1, rank, m) * options_.minibatch, buffer.minibatch.num_frames) << m;
          EXPECT_EQ(pool->Frames(1, rank, m), buffer.minibatch.num_frames) << m;
          frames += pool->Fullness(1, rank, m) * options_.minibatch;
        }
        EXPECT_EQ(pool->Frames(1, rank, -1), 0);
        EXPECT_EQ(pool->Frames(1, rank, pool->num_minibatches(1, rank)), 0);
        EXPECT_EQ(pool->Fullness(1, rank, -1), 0);
        EXPECT_EQ(pool->Fullness(1, rank, pool->num_minibatches(1, rank)), 0);
      }
      EXPECT_DOUBLE_EQ(frames, store_->num_frames())
          << NameOf(distribution, kDistributions) << ", " << world << " workers";
    }
  }
  options_.distribution = Distribution::kPool;
  options_.minibatch = 1 << 20;
  EXPECT_EQ(Pool()->Fullness(0, 0, 0), 1) << "all frames there are";
  options_.minibatch = 32;
  options_.chunk_frames = 25;
  const auto chunks = Pool();
  for (int64_t m = 0; m < chunks->num_minibatches(0); ++m) EXPECT_EQ(chunks->Fullness(0, 0, m), 1);
}

TEST_F(MinibatchPoolTest, HandsOutEachFrameOncePerEpochWhateverTheWorkers) {
  std::vector<int64_t> all;
  for (int64_t f = 0; f < store_->num_frames(); ++f) all.push_back(f);
  for (const Distribution distribution : {Distribution::kPool, Distribution::kShares}) {
    for (const int chunk : {0, 25, 100000}) {
      for (const bool shuffle : {true, false}) {
        for (const int world : {1, 2, 5, 70}) {
          options_.distribution = distribution;
          options_.chunk_frames = chunk;
          options_.shuffle = shuffle;
          for (const int64_t epoch : {0, 3}) {
            std::vector<int64_t> frames = Frames(Pool(world), epoch);
            if (!shuffle && world == 1 && chunk == 0) {
              EXPECT_EQ(frames, all);
            }
            std::sort(frames.begin(), frames.end());
            EXPECT_EQ(frames, all) << NameOf(distribution, kDistributions) << ", chunks of " << chunk << ", " << world
                                   << " workers";
          }
        }
      }
    }
  }
}

TEST_F(MinibatchPoolTest, ServesManyThreadsAtOnce) {
  options_.shuffle_frames = 100;
  for (const Distribution distribution : {Distribution::kPool, Distribution::kShares}) {
    options_.distribution = distribution;
    const auto pool = Pool(4);
    std::vector<std::vector<int64_t>> frames(4);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 4; ++rank) {
      threads.emplace_back([&, rank] {
        for (const int64_t epoch : {0, 1}) {
          MinibatchStream stream(pool, rank, epoch);
          std::vector<int64_t>& seen = frames[static_cast<size_t>(rank)];
          while (const Minibatch* m = stream.Next()) seen.insert(seen.end(), m->frame_ids.begin(), m->frame_ids.end());
        }
      });
    }
    for (std::thread& t : threads) t.join();
    std::vector<int64_t> alone;
    for (int rank = 0; rank < 4; ++rank) {
      for (const int64_t epoch : {0, 1}) {
        MinibatchStream stream(Pool(4), rank, epoch);
        while (const Minibatch* m = stream.Next()) alone.insert(alone.end(), m->frame_ids.begin(), m->frame_ids.end());
      }
    }
    std::vector<int64_t> together;
    for (const auto& seen : frames) together.insert(together.end(), seen.begin(), seen.end());
    EXPECT_EQ(together, alone);
  }
}

TEST_F(MinibatchPoolTest, RepeatsItselfForTheSameSeedAndDiffersForOthers) {
  const auto frames = Frames(Pool(2, 1), 0);
  EXPECT_EQ(Frames(Pool(2, 1), 0), frames);
  EXPECT_NE(Frames(Pool(2, 2), 0), frames);
  EXPECT_NE(Frames(Pool(2, 1), 1), frames);
  options_.prefetch = 0;
  EXPECT_EQ(Frames(Pool(2, 1), 0), frames);
}

TEST_F(MinibatchPoolTest, FillsRowsWithSplicedFeaturesPdfIdsAndWeights) {
  const auto pool = Pool();
  const auto& utterances = store_->utterances();
  MinibatchStream stream(pool, 0, 0);
  while (const Minibatch* m = stream.Next()) {
    ASSERT_EQ(m->features.cols(), 4 * 5);
    for (int64_t r = 0; r < m->features.rows(); ++r) {
      const int64_t id = m->frame_ids[static_cast<size_t>(r)];
      size_t u = 0;
      while (u + 1 < utterances.size() && utterances[u + 1].first_frame <= id) ++u;
      const int t = static_cast<int>(id - utterances[u].first_frame);
      std::vector<float> expected(20);
      store_->ReadSpliced(u, t, {2, 1}, expected.data());
      ASSERT_EQ(std::memcmp(expected.data(), m->features.Row(r).data(), 20 * sizeof(float)), 0);
      ASSERT_EQ(m->pdf_ids[static_cast<size_t>(r)], store_->PdfId(u, t));
      ASSERT_EQ(m->weights[static_cast<size_t>(r)], 1.0f);
    }
  }
}

TEST_F(MinibatchPoolTest, NormalisesEachColumnOfEveryContextFrame) {
  const MinibatchPool pool(store_, options_, 1, 1, {}, {.mean = {1, 2, 3, 4, 5}, .scale = {1, 10, 100, 1000, 10000}});
  MinibatchBuffer plain, normalised;
  Pool()->Fill(0, 0, 3, plain);
  pool.Fill(0, 0, 3, normalised);
  for (int64_t r = 0; r < plain.minibatch.features.rows(); ++r) {
    for (int64_t c = 0; c < 20; ++c) {
      const auto k = static_cast<float>(c % 5);
      EXPECT_FLOAT_EQ(normalised.minibatch.features(r, c),
                      (plain.minibatch.features(r, c) - (k + 1)) * std::pow(10.0f, k));
    }
  }
  EXPECT_THROW(MinibatchPool(store_, options_, 1, 1, {}, {.mean = {1, 2}, .scale = {1, 2}}), ShapeError);
}

TEST_F(MinibatchPoolTest, ResumesAtAnyStepBitIdentically) {
  for (const int chunk : {0, 25}) {
    options_.chunk_frames = chunk;
    const auto pool = Pool(2);
    std::vector<std::vector<int64_t>> steps;
    MinibatchStream whole(pool, 1, 5);
    while (const Minibatch* m = whole.Next()) steps.emplace_back(m->frame_ids.begin(), m->frame_ids.end());
    ASSERT_EQ(whole.step(), std::ssize(steps));
    const auto again = Pool(2);
    for (const size_t first : {size_t{0}, size_t{1}, steps.size() / 2, steps.size() - 1, steps.size()}) {
      MinibatchStream rest(again, 1, 5, static_cast<int64_t>(first));
      for (size_t s = first; s < steps.size(); ++s) {
        const Minibatch* m = rest.Next();
        ASSERT_NE(m, nullptr);
        EXPECT_EQ(std::vector<int64_t>(m->frame_ids.begin(), m->frame_ids.end()), steps[s]) << "step " << s;
      }
      EXPECT_EQ(rest.Next(), nullptr);
    }
  }
}

TEST_F(MinibatchPoolTest, StripesDealTheRestOfAnEpochToAnyNumberOfWorkers) {
  const auto pool = Pool(2);
  const int64_t count = pool->num_minibatches(3);
  for (const int workers : {1, 3, 4}) {
    std::multiset<int64_t> seen;
    std::set<int64_t> steps;
    for (int rank = 0; rank < workers + 1; ++rank) {  // the last one has nothing to do, as often as the others have
      MinibatchStream stream(pool, {3, 5, rank, workers});
      int64_t taken = 0;
      while (const Minibatch* m = stream.Next()) {
        ++taken;
        if (m->index >= 0) seen.insert(m->index);
        EXPECT_EQ(m->index < 0, m->pdf_ids.empty());
        EXPECT_TRUE(rank < workers || m->index < 0);
      }
      steps.insert(taken);
    }
    EXPECT_EQ(steps, std::set<int64_t>{(count - 5 + workers - 1) / workers});
    ASSERT_EQ(std::ssize(seen), count - 5) << workers;
    for (int64_t index = 5; index < count; ++index) EXPECT_EQ(seen.count(index), 1u);
  }
}

TEST_F(MinibatchPoolTest, TrainsOnAPartOfTheStore) {
  const std::vector<size_t> chosen = {3, 8, 50};
  std::multiset<int64_t> expected;
  for (const size_t u : chosen) {
    for (int t = 0; t < store_->utterances()[u].num_frames; ++t)
      expected.insert(store_->utterances()[u].first_frame + t);
  }
  const auto frames = Frames(Pool(1, 1, chosen), 0);
  EXPECT_EQ(std::multiset<int64_t>(frames.begin(), frames.end()), expected);
}

// How often two frames of a minibatch come from the same utterance, relative to a full shuffle of all frames.
double SameUtteranceRatio(const FrameStore& store, const MinibatchPool& pool) {
  std::vector<size_t> utterance_of(static_cast<size_t>(store.num_frames()));
  double by_chance = 0.0;
  const auto total = static_cast<double>(store.num_frames());
  for (size_t u = 0; u < store.utterances().size(); ++u) {
    const auto& utterance = store.utterances()[u];
    by_chance += utterance.num_frames / total * (utterance.num_frames - 1) / (total - 1);
    for (int t = 0; t < utterance.num_frames; ++t) utterance_of[static_cast<size_t>(utterance.first_frame + t)] = u;
  }
  double same = 0.0;
  double pairs = 0.0;
  MinibatchBuffer buffer;
  for (int64_t i = 0; i < pool.num_minibatches(0); ++i) {
    pool.Fill(0, 0, i, buffer);
    const auto ids = buffer.minibatch.frame_ids;
    for (size_t a = 0; a < ids.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        same += utterance_of[static_cast<size_t>(ids[a])] == utterance_of[static_cast<size_t>(ids[b])] ? 1.0 : 0.0;
        pairs += 1.0;
      }
    }
  }
  return same / pairs / by_chance;
}

TEST_F(MinibatchPoolTest, ShufflesAlmostAsWellAsAFullPermutation) {
  MakeStore(folder_ / "many", 400, 2, 30, {}, 200);
  store_ = std::make_shared<const FrameStore>(folder_ / "many");
  options_.left_context = options_.right_context = 0;
  options_.minibatch = 256;
  options_.block_frames = 32;
  options_.shuffle_frames = 1 << 20;  // all
  const double full = SameUtteranceRatio(*store_, *Pool());
  EXPECT_NEAR(full, 1.0, 0.05);
  options_.shuffle_frames = 10000;  // a quarter of the frames, some 300 blocks
  EXPECT_LT(SameUtteranceRatio(*store_, *Pool()), 2.0);
  options_.shuffle = false;
  EXPECT_GT(SameUtteranceRatio(*store_, *Pool()), 50.0);
}

TEST_F(MinibatchPoolTest, CarriesAnErrorOfThePrefetcherToTheConsumer) {
  MakeStore(folder_ / "bad", 60);
  {
    std::fstream shard(folder_ / "bad/shard-00000.frames", std::ios::binary | std::ios::in | std::ios::out);
    shard.seekp(3);
    shard.put('\x55');
  }
  store_ = std::make_shared<const FrameStore>(folder_ / "bad");
  MinibatchStream stream(Pool(), 0, 0);
  const auto drain = [&] {
    while (stream.Next() != nullptr) {
    }
  };
  EXPECT_THROW(drain(), InputError);
  EXPECT_THROW(drain(), InputError);
}

TEST_F(MinibatchPoolTest, StopsCleanlyInTheMiddle) {
  const auto pool = Pool();
  for (int i = 0; i < 20; ++i) {
    MinibatchStream stream(pool, 0, 0);
    for (int k = 0; k < i; ++k) stream.Next();
    EXPECT_GE(stream.stall_seconds(), 0.0);
  }
}

class DealtShards : public ::testing::Test {
 protected:
  static constexpr int kWorkers = 2;
  DealtShards() {
    MakeStore(folder_ / "store", 60, 40, 30, {.coding = "uint8", .shard_mib = 1}, 4000);
    options_.distribution = Distribution::kShards;
    options_.left_context = options_.right_context = 1;
  }
  MinibatchPool Pool(bool all_shards) {
    FrameStoreAccess access;
    access.all_shards = all_shards;
    return MinibatchPool(std::make_shared<const FrameStore>(folder_ / "store", access), options_, 3, kWorkers);
  }
  antiphon::testing::TemporaryFolder folder_;
  MinibatchOptions options_;
};

TEST_F(DealtShards, GiveEachWorkerWholeShardsAndAboutAsManyFrames) {
  const FrameStore store(folder_ / "store");
  ASSERT_GE(store.num_shards(), 4u);
  const MinibatchPool pool = Pool(true);
  std::vector<int> worker_of_shard(store.num_shards(), -1);
  std::vector<int64_t> frames(kWorkers, 0);
  size_t dealt = 0;
  for (int worker = 0; worker < kWorkers; ++worker) {
    for (const size_t u : pool.UtterancesOf(worker)) {
      int& owner = worker_of_shard[store.ShardOf(u)];
      EXPECT_TRUE(owner < 0 || owner == worker);
      owner = worker;
      frames[static_cast<size_t>(worker)] += store.utterances()[u].num_frames;
      ++dealt;
    }
  }
  EXPECT_EQ(dealt, store.utterances().size());
  EXPECT_LT(std::max(frames[0], frames[1]), 2 * std::min(frames[0], frames[1]));
}

TEST_F(DealtShards, ThoseOfOtherWorkersMayBeMissing) {
  const FrameStore whole(folder_ / "store");
  const size_t foreign = whole.ShardOf(Pool(true).UtterancesOf(0).front());
  for (const size_t u : Pool(true).UtterancesOf(0)) {
    std::filesystem::remove(whole.ShardFile(whole.ShardOf(u)));
  }
  EXPECT_THROW(FrameStore(folder_ / "store"), Error);
  const MinibatchPool pool = Pool(false);
  MinibatchBuffer buffer;
  int64_t frames = 0;
  for (int64_t i = 0; i < pool.num_minibatches(0, 1); ++i) {
    pool.Fill(0, 1, i, buffer);
    frames += buffer.minibatch.features.rows();
  }
  int64_t expected = 0;
  for (const size_t u : pool.UtterancesOf(1)) expected += whole.utterances()[u].num_frames;
  EXPECT_EQ(frames, expected);
  try {
    pool.Fill(0, 0, 0, buffer);
    FAIL() << "expected InputError";
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find(".frames' is missing on this machine"), std::string::npos) << e.what();
  }
  FrameStoreAccess some_shards;
  some_shards.all_shards = false;
  EXPECT_FALSE(FrameStore(folder_ / "store", some_shards).HasShard(foreign));
}

TEST_F(DealtShards, FewerThanWorkersAreRefused) {
  const auto store = std::make_shared<const FrameStore>(folder_ / "store");
  const MinibatchPool pool(store, options_, 3, static_cast<int>(store->num_shards()) + 1);
  EXPECT_THROW(pool.UtterancesOf(0), UsageError);
}

}  // namespace
}  // namespace antiphon::data
