// The data of a training run: what is learned, what is held out, and the pool of minibatches.
//
// Threads: made once by each rank, then read-only. Errors: UsageError and InputError for stores that do not belong
// together, do not fit the options, or hold too little.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "comm/communicator.h"
#include "data/frame_store.h"
#include "data/minibatch_pool.h"
#include "nn/network.h"
#include "train/data_share.h"
#include "train/evaluate.h"
#include "train/sequence_task.h"
#include "train/trainer.h"

namespace antiphon::train {

struct RunData {
  /// All but the pool.
  RunData(const TrainingTask& task, const TrainOptions& options);
  /// For a criterion of sequences: takes out the utterances of which it knows nothing.
  void KeepThoseThatAreKnown(const TrainingTask& task);
  /// For a network and `replicas` of it, whose ranks read it together.
  void OpenPool(const TrainingTask& task, const TrainOptions& options, const nn::Network& outline, int replicas,
                const comm::Communicator& comm);

  Distribution distribution;                     // the one chosen: never kAuto
  std::shared_ptr<const SequenceTask> sequence;  // null: learns by frames
  std::vector<size_t> train_utterances;
  std::shared_ptr<const data::FrameStore> held_out_store;
  std::vector<size_t> held_out_utterances;
  bool held_out_by_speaker = true;
  std::shared_ptr<const data::MinibatchPool> pool;
  std::optional<PhoneMap> phones;

 private:
  void Split(const TrainingTask& task, const TrainOptions& options);
};

}  // namespace antiphon::train
