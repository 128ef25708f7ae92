// Training where each worker's machine has its own shards only.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <filesystem>
#include <sstream>

#include "base/compute_threads.h"
#include "base/error.h"
#include "base/log.h"
#include "parallel/strategy.h"
#include "temporary_folder.h"
#include "train/data_share.h"
#include "train/synthetic_task.h"

namespace antiphon::train {
namespace {

namespace fs = std::filesystem;

constexpr int kWorkers = 2;
constexpr int kShardDim = 40;
constexpr int kShardPdfs = 5;

void WriteStore(const fs::path& folder, int utterances, int frames) {
  data::FrameStoreWriter writer(folder, kShardDim, kShardPdfs, {.coding = "uint8", .shard_mib = 1});
  Rng rng(5);
  for (int u = 0; u < utterances; ++u) {
    Matrix features(frames, kShardDim);
    std::vector<int32_t> pdf_ids(static_cast<size_t>(frames));
    for (int t = 0; t < frames; ++t) {
      const auto pdf = static_cast<int32_t>(rng.Below(kShardPdfs));
      pdf_ids[static_cast<size_t>(t)] = pdf;
      for (int c = 0; c < kShardDim; ++c) features(t, c) = static_cast<float>(rng.Uniform()) + (c == pdf ? 1.0f : 0.0f);
    }
    writer.Add("utt" + std::to_string(100 + u), "spk" + std::to_string(u % 3), features, pdf_ids);
  }
  writer.Finish();
}

class ShardsOnLocalDisks : public ::testing::Test {
 protected:
  void SetUp() override {
    WriteStore(folder_ / "store", 50, 2000);
    WriteStore(folder_ / "held_out", 2, 500);
    const data::FrameStore store(folder_ / "store");
    ASSERT_GE(store.num_shards(), 3u);
    const data::MinibatchPool pool(std::make_shared<const data::FrameStore>(folder_ / "store"), Options().data, 1,
                                   kWorkers);
    for (int worker = 0; worker < kWorkers; ++worker) {
      const fs::path local = LocalStore(worker);
      fs::copy(folder_ / "store", local);
      for (const size_t u : pool.UtterancesOf(1 - worker)) fs::remove(local / ShardName(store, u));
    }
  }
  static std::string ShardName(const data::FrameStore& store, size_t utterance) {
    return store.ShardFile(store.ShardOf(utterance)).filename().string();
  }
  fs::path LocalStore(int worker) const { return folder_ / ("local" + std::to_string(worker)); }

  static TrainOptions Options() {
    TrainOptions options = SmallOptions();
    options.data.distribution = Distribution::kShards;
    options.data.minibatch = 1024;
    options.schedule.epochs = 1;
    return options;
  }

  // Worker w reads stores[w].
  uint64_t Train(const std::string& run, const std::vector<fs::path>& stores) {
    uint64_t hash = 0;
    data::FrameStoreAccess some_shards;
    some_shards.all_shards = false;
    comm::RunRanks(kWorkers, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      TrainingTask task =
          SmallTask(std::make_shared<const data::FrameStore>(stores[static_cast<size_t>(comm.rank())], some_shards),
                    folder_ / run);
      task.held_out_store = std::make_shared<const data::FrameStore>(folder_ / "held_out");
      task.network = Config::Parse(
          "[[layer]]\ntype = \"affine\"\ndim = 16\n[[layer]]\ntype = \"relu\"\n[[layer]]\ntype = \"affine\"\n", "n");
      task.parallel = Config::Parse("method = \"ssgd\"\nworkers = 2\n", "parallel");
      const TrainingSummary summary = Trainer(task, Options(), comm).Run(false);
      if (comm.rank() == 0) hash = summary.model_hash;
    });
    return hash;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ShardsOnLocalDisks, GiveTheModelOfTheWholeStore) {
  const uint64_t whole = Train("whole", {folder_ / "store", folder_ / "store"});
  EXPECT_EQ(Train("local", {LocalStore(0), LocalStore(1)}), whole);
}

TEST_F(ShardsOnLocalDisks, AMissingOneEndsAllWorkersWithItsName) {
  try {
    Train("swapped", {LocalStore(1), folder_ / "store"});
    FAIL() << "expected InputError";
  } catch (const InputError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("worker 0 of 2"), std::string::npos) << text;
    EXPECT_NE(text.find("missing: shard-0000"), std::string::npos) << text;
  }
}

// Multipliers belong to a worker's own data, which only shards keep with it.
TEST_F(ShardsOnLocalDisks, AreWhatAdmmTakesUnlessItIsToldOtherwise) {
  TrainingTask task = SmallTask(std::make_shared<const data::FrameStore>(folder_ / "store"), folder_ / "admm");
  const auto held_out = std::make_shared<const data::FrameStore>(folder_ / "held_out");
  const auto chosen = [&](const std::string& method, int workers, Distribution asked = Distribution::kAuto) {
    task.parallel = Config::Parse("method = \"" + method + "\"\n", "parallel");
    TrainOptions options = Options();
    options.data.distribution = asked;
    return ChooseDistribution(task, options, workers);
  };
  EXPECT_EQ(chosen("admm", 2), Distribution::kPool) << "no held-out store";
  task.held_out_store = held_out;
  EXPECT_EQ(chosen("admm", 2), Distribution::kShards);
  EXPECT_EQ(chosen("admm", 1), Distribution::kPool);
  EXPECT_EQ(chosen("admm", 1000), Distribution::kPool) << "not enough shards";
  EXPECT_EQ(chosen("admm", 2, Distribution::kShares), Distribution::kShares);
  EXPECT_EQ(chosen("averaging", 2), Distribution::kPool);
  task.parallel = Config::Parse("method = \"admm\"\nsync-period = 4\n", "parallel");
  TrainOptions options = Options();
  options.data.distribution = Distribution::kAuto;
  std::vector<uint64_t> hashes;
  for (const Distribution asked : {Distribution::kAuto, Distribution::kShards}) {
    options.data.distribution = asked;
    comm::RunRanks(kWorkers, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      const TrainingSummary summary = Trainer(task, options, comm).Run(false);
      if (comm.rank() == 0) hashes.push_back(summary.model_hash);
    });
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

// Otherwise the objective of each worker is another one in every epoch.
TEST_F(ShardsOnLocalDisks, WithoutThemAdmmSaysWhatItLoses) {
  const auto said = [&](const std::string& method, Distribution distribution) {
    const std::string run = method + "-" + NameOf(distribution, data::kDistributions);
    TrainingTask task = SmallTask(std::make_shared<const data::FrameStore>(folder_ / "store"), folder_ / run);
    task.held_out_store = std::make_shared<const data::FrameStore>(folder_ / "held_out");
    task.parallel = Config::Parse("method = \"" + method + "\"\nsync-period = 4\n", "parallel");
    TrainOptions options = Options();
    options.data.distribution = distribution;
    std::ostringstream text;
    log::SetLogger(std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    comm::RunRanks(kWorkers, [&](comm::Communicator& comm) {
      SetComputeThreads(1);
      Trainer(task, options, comm).Run(false);
    });
    log::SetLogger(std::make_shared<spdlog::logger>("silent"));
    return text.str();
  };
  const std::string lost = "what a worker's multipliers have learned belongs to data that it has no more in the next";
  for (const Distribution distribution : {Distribution::kPool, Distribution::kShares}) {
    const std::string name = NameOf(distribution, data::kDistributions);
    const std::string text = said("admm", distribution);
    const size_t at = text.find("method 'admm' with data.distribution '" + name + "': " + lost);
    EXPECT_NE(at, std::string::npos) << text;
    EXPECT_EQ(text.find(lost, at + 100), std::string::npos) << "by one worker, once";
  }
  for (const auto& [method, distribution] :
       {std::pair("admm", Distribution::kShards), std::pair("averaging", Distribution::kPool)}) {
    EXPECT_EQ(said(method, distribution).find("belongs to data"), std::string::npos) << method;
  }
}

// One worker's shard holds several times the frames of the other's: nobody waits for what never comes, and every frame
// is learned from once.
TEST(UnequalShards, AreTrainedToTheEndByEveryMethodThatTakesThem) {
  const testing::TemporaryFolder folder;
  WriteStore(folder / "store", 14, 2000);
  WriteStore(folder / "held_out", 2, 500);
  const auto store = std::make_shared<const data::FrameStore>(folder / "store");
  TrainOptions options = SmallOptions();
  options.data.distribution = Distribution::kShards;
  options.data.minibatch = 512;
  options.schedule.epochs = 1;
  const data::MinibatchPool pool(store, options.data, 1, kWorkers);
  ASSERT_EQ(store->num_shards(), 2u);
  ASSERT_GT(pool.UtterancesOf(0).size(), 4 * pool.UtterancesOf(1).size());
  int methods = 0;
  for (const std::string& method : parallel::StrategyRegistry::Get().Names()) {
    if (method == "serial" || method == "hessian-free" || method.starts_with("test-")) continue;
    SCOPED_TRACE(method);
    TrainingTask task = SmallTask(store, folder / method);
    task.held_out_store = std::make_shared<const data::FrameStore>(folder / "held_out");
    if (method == "eamsgd") task.optimizer = Config::Parse("momentum = 0.9\nnesterov = true\n", "optimizer");
    task.parallel = Config::Parse("method = \"" + method + "\"\n", "parallel");
    std::vector<TrainingSummary> summaries(kWorkers);
    try {
      comm::RunRanks(kWorkers, [&](comm::Communicator& comm) {
        SetComputeThreads(1);
        comm.set_deadline_seconds(60);
        summaries[static_cast<size_t>(comm.rank())] = Trainer(task, options, comm).Run(false);
      });
    } catch (const UsageError& e) {
      EXPECT_NE(std::string(e.what()).find("data.distribution must be 'pool'"), std::string::npos) << e.what();
      continue;
    }
    ++methods;
    EXPECT_EQ(summaries[0].frames, 14 * 2000);
    EXPECT_EQ(summaries[0].model_hash, summaries[1].model_hash);
  }
  EXPECT_GE(methods, 6);
}

}  // namespace
}  // namespace antiphon::train
