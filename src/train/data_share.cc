#include "train/data_share.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/host_name.h"
#include "parallel/strategy_traits.h"

namespace antiphon::train {
namespace {

constexpr int64_t kMostFrames = 2'000'000;

bool Dealt(const data::MinibatchPool& pool) { return pool.options().distribution == Distribution::kShards; }

data::FeatureMoments MomentsByRankZero(comm::Communicator& comm, const data::FrameStore& store,
                                       std::span<const size_t> train_utterances) {
  data::FeatureMoments moments;
  if (comm.rank() == 0) moments = data::EstimateMoments(store, train_utterances, kMostFrames);
  moments.mean.resize(static_cast<size_t>(store.feat_dim()));
  moments.inv_stddev.resize(static_cast<size_t>(store.feat_dim()));
  comm.Broadcast(0, std::span(moments.mean));
  comm.Broadcast(0, std::span(moments.inv_stddev));
  return moments;
}

data::FeatureMoments MomentsOfAllShards(comm::Communicator& comm, const data::FrameStore& store,
                                        const data::MinibatchPool& pool) {
  const std::vector<size_t> part = pool.FirstUtterancesOf(comm.rank());
  const data::FeatureMoments mine = data::EstimateMoments(store, part, kMostFrames / comm.world_size());
  const auto dim = mine.mean.size();
  const auto frames = static_cast<double>(store.CountFrames(part));
  // Frames, then sums and sums of squares per column.
  std::vector<double> sums(1 + 2 * dim, 0.0);
  sums[0] = frames;
  for (size_t c = 0; c < dim; ++c) {
    const double mean = mine.mean[c];
    const double variance = 1 / (static_cast<double>(mine.inv_stddev[c]) * mine.inv_stddev[c]);
    sums[1 + c] = frames * mean;
    sums[1 + dim + c] = frames * (variance + mean * mean);
  }
  comm.AllReduce(std::span<double>(sums));
  data::FeatureMoments moments;
  for (size_t c = 0; c < dim; ++c) {
    const double mean = sums[1 + c] / sums[0];
    const double variance = std::max(sums[1 + dim + c] / sums[0] - mean * mean, 1e-10);
    moments.mean.push_back(static_cast<float>(mean));
    moments.inv_stddev.push_back(static_cast<float>(1 / std::sqrt(variance)));
  }
  return moments;
}

}  // namespace

Distribution ChooseDistribution(const TrainingTask& task, const TrainOptions& options, int workers) {
  if (options.data.distribution != Distribution::kAuto) return options.data.distribution;
  const parallel::StrategyTraits traits = parallel::TraitsOf(task.parallel);
  const bool needs_pool =
      !task.mixing.utterances.empty() || options.pretrain.method == PretrainMethod::kRbm || traits.takes_when_free;
  if (workers == 1 || needs_pool) return Distribution::kPool;
  const bool divisible = task.held_out_store && std::cmp_greater_equal(task.store->num_shards(), workers);
  if (!traits.of_own_data.empty() && divisible) return Distribution::kShards;
  return task.store->live() != nullptr ? Distribution::kShares : Distribution::kPool;
}

double FullnessOfStep(const data::MinibatchPool& pool, int64_t epoch, int64_t step, int workers) {
  const bool common = pool.options().distribution == Distribution::kPool;
  double full = 0;
  for (int w = 0; w < workers; ++w) {
    full += common ? pool.Fullness(epoch, 0, step * workers + w) : pool.Fullness(epoch, w, step);
  }
  return full / workers;
}

void RequireShards(const comm::Communicator& comm, const data::FrameStore& store, const data::MinibatchPool& pool) {
  if (!Dealt(pool)) return;
  std::set<size_t> needed;
  for (const size_t u : pool.UtterancesOf(comm.rank())) needed.insert(store.ShardOf(u));
  std::string missing;
  for (const size_t shard : needed) {
    if (!store.HasShard(shard)) missing += (missing.empty() ? "" : ", ") + store.ShardFile(shard).filename().string();
  }
  if (missing.empty()) return;
  Throw<InputError>("worker {} of {} on {} needs {} shard(s) of '{}', of which there are missing: {}. Copy them there",
                    comm.rank(), comm.world_size(), HostName(), needed.size(), store.folder().string(), missing);
}

void FetchAhead(const data::FrameStore& store, const data::MinibatchPool& pool, int rank) {
  std::set<size_t> shards;
  for (const size_t u : pool.UtterancesOf(rank)) shards.insert(store.ShardOf(u));
  store.FetchAhead(static_cast<uint64_t>(rank), std::vector<size_t>(shards.begin(), shards.end()));
}

data::FeatureMoments EstimateMomentsTogether(comm::Communicator& comm, const data::FrameStore& store,
                                             const data::MinibatchPool& pool,
                                             std::span<const size_t> train_utterances) {
  if (Dealt(pool)) return MomentsOfAllShards(comm, store, pool);
  if (pool.options().shards_at_once == 0) return MomentsByRankZero(comm, store, train_utterances);
  return MomentsByRankZero(comm, store, pool.FirstUtterancesOf(0));
}

std::vector<int64_t> CountPdfsTogether(comm::Communicator& comm, const data::FrameStore& store,
                                       const data::MinibatchPool& pool) {
  std::vector<double> counts(static_cast<size_t>(store.num_pdfs()), 0.0);
  if (Dealt(pool) || comm.rank() == 0) {
    const std::vector<int64_t> mine = store.CountPdfs(pool.FirstUtterancesOf(comm.rank()));
    counts.assign(mine.begin(), mine.end());
  }
  comm.AllReduce(std::span<double>(counts));
  return {counts.begin(), counts.end()};
}

}  // namespace antiphon::train
