// What the workers find out about the training data together, when none of them may be able to read all of it.
//
// With data.distribution "shards" a worker reads its own shards only, and each counts its part; otherwise rank 0 reads
// for all. With data.shards-at-once, the shards that are read first stand for all. Collective; the same result on all
// ranks, whatever carries them. Errors: InputError naming the shard that a worker lacks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "data/frame_store.h"
#include "data/minibatch_pool.h"
#include "train/trainer.h"

namespace antiphon::train {

using data::Distribution;

/// What data.distribution "auto" means: "pool"; unless something needs that, for a method whose workers learn something
/// of their own data alone (parallel/strategy_traits.h) "shards", if there is a held-out store and a shard for every
/// worker at least, and else for a live store "shares", so that no two processes make the same features.
Distribution ChooseDistribution(const TrainingTask& task, const TrainOptions& options, int workers);

/// The frames of step `step` of an epoch by those of whole minibatches, where all `workers` take the next ones.
double FullnessOfStep(const data::MinibatchPool& pool, int64_t epoch, int64_t step, int workers);

/// Throws if this rank cannot read what it will train on.
void RequireShards(const comm::Communicator& comm, const data::FrameStore& store, const data::MinibatchPool& pool);

/// Has copies made of the shards that this rank reads, if the store has a cache.
void FetchAhead(const data::FrameStore& store, const data::MinibatchPool& pool, int rank);

/// `train_utterances`: as given to the pool.
data::FeatureMoments EstimateMomentsTogether(comm::Communicator& comm, const data::FrameStore& store,
                                             const data::MinibatchPool& pool, std::span<const size_t> train_utterances);

/// Frames of each pdf-id.
std::vector<int64_t> CountPdfsTogether(comm::Communicator& comm, const data::FrameStore& store,
                                       const data::MinibatchPool& pool);

}  // namespace antiphon::train
