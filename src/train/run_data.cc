#include "train/run_data.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "data/feature_kind.h"
#include "train/random_streams.h"
#include "train/warm_start.h"

namespace antiphon::train {
namespace {

data::Mixing MixingOf(const TrainingTask& task, const TrainOptions& options) {
  data::Mixing mixing = task.mixing;
  mixing.epochs = options.schedule.epochs;
  if (mixing.utterances.empty() || task.held_out_store) return mixing;
  throw UsageError("speech that is mixed in needs a held-out store: it could be held out otherwise");
}

}  // namespace

RunData::RunData(const TrainingTask& task, const TrainOptions& options)
    : distribution(options.data.distribution), sequence(SequenceTask::Open(task, options)) {
  Split(task, options);
}

void RunData::Split(const TrainingTask& task, const TrainOptions& options) {
  const data::FrameStore& store = *task.store;
  if (!store.labelled() && (!task.held_out_store || options.priors == PriorSource::kAlignment)) {
    Throw<UsageError>(
        "the store '{}' has no alignment: training needs a held-out store that has one, and priors = "
        "\"posteriors\"",
        store.folder().string());
  }
  held_out_store = task.held_out_store ? task.held_out_store : task.store;
  if (task.hmm && task.hmm->num_pdfs() != store.num_pdfs()) {
    Throw<InputError>("the store '{}' has {} pdf-ids, but the HMM has {}: they do not belong together",
                      store.folder().string(), store.num_pdfs(), task.hmm->num_pdfs());
  }
  data::FeatureKind kind = data::KindOf(task.feature_config, task.speaker_model, task.ivector_extractor);
  if (task.initial) kind.normalisation = NormalisationTakenBy(*task.initial);
  data::RequireKind(store, kind, "the network");
  if (task.held_out_store) {
    data::RequireKind(*held_out_store, kind, "the network");
    data::RequireKind(*held_out_store, data::KindOf(store), fmt::format("'{}'", store.folder().string()));
    if (held_out_store->feat_dim() != store.feat_dim() || held_out_store->num_pdfs() > store.num_pdfs()) {
      Throw<InputError>("the held-out store '{}' has {} features and {} pdf-ids, the training store {} and {}",
                        held_out_store->folder().string(), held_out_store->feat_dim(), held_out_store->num_pdfs(),
                        store.feat_dim(), store.num_pdfs());
    }
    return;
  }
  if (distribution == Distribution::kShards) {
    throw UsageError(
        "data.distribution 'shards' needs --held-out-store, as no worker can read speakers held out of all shards");
  }
  if (options.data.shards_at_once > 0) {
    throw UsageError(
        "data.shards-at-once needs --held-out-store, as speakers held out of all shards cannot be read by a few at "
        "once");
  }
  DataSplit split = SplitForRun(store, options.held_out, task.seed);
  train_utterances = std::move(split.train);
  held_out_utterances = std::move(split.held_out);
  held_out_by_speaker = split.by_speaker;
}

void RunData::KeepThoseThatAreKnown(const TrainingTask& task) {
  if (!sequence) return;
  sequence->KeepThoseThatAreKnown(*task.store, train_utterances);
  sequence->KeepThoseThatAreKnown(*held_out_store, held_out_utterances);
}

void RunData::OpenPool(const TrainingTask& task, const TrainOptions& options, const nn::Network& outline, int replicas,
                       const comm::Communicator& comm) {
  data::MinibatchOptions data_options = options.data;
  data_options.carry_state = options.data.carry_state && outline.recurrent() && !sequence;
  if (sequence) data_options = sequence->Pieces(*task.store, data_options);
  pool = std::make_shared<const data::MinibatchPool>(task.store, data_options, SeedOf(task.seed, RandomStream::kData),
                                                     replicas, train_utterances, data::InputNormalisation{},
                                                     outline.time_context(), MixingOf(task, options));
  RequireShards(comm, *task.store, *pool);
  if (options.data.shards_at_once == 0) FetchAhead(*task.store, *pool, comm.rank());
  if (pool->num_frames() < int64_t{options.data.minibatch} * comm.world_size()) {
    Throw<UsageError>("{} training frames are fewer than {} worker(s) × minibatch {}: take a smaller data.minibatch",
                      pool->num_frames(), comm.world_size(), options.data.minibatch);
  }
  if (task.hmm) phones.emplace(*task.hmm);
}

}  // namespace antiphon::train
