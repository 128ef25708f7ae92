// Sequence-discriminative training as a whole run sees it: the criterion, and which utterances take part.
//
// Threads: immutable once made.
// Errors: UsageError for runs that cannot be; InputError for utterances of which too few have lattices.
#pragma once

#include <memory>
#include <vector>

#include "chain/chain_data.h"
#include "data/minibatch_pool.h"
#include "train/sequence_loss.h"
#include "train/trainer.h"

namespace antiphon::train {

class SequenceTask {
 public:
  /// Null for training by frames.
  static std::shared_ptr<const SequenceTask> Open(const TrainingTask& task, const TrainOptions& options);

  /// Takes out the utterances of which there is no lattice or reference, and says how many; all of the store if
  /// `utterances` is empty.
  void KeepThoseThatAreKnown(const data::FrameStore& store, std::vector<size_t>& utterances) const;
  /// Throws UsageError unless the network gives an output for as many frames as the criterion needs; `chunk_frames` as
  /// data::MinibatchOptions has it.
  void RequireOutputs(int stride, int chunk_frames) const;
  /// Minibatches of whole utterances, or of chunks as they were.
  data::MinibatchOptions Pieces(const data::FrameStore& store, data::MinibatchOptions options) const;
  std::unique_ptr<MinibatchLoss> MakeLoss(std::shared_ptr<const data::FrameStore> store) const;
  /// Those that scores are taken with, and that the trained model keeps: the initial model's; for chain none (zeros).
  const std::vector<float>& log_priors() const { return log_priors_; }
  /// Frames of the features for a frame of the HMM.
  int frame_subsampling() const { return chain_ ? chain_->step : 1; }

 private:
  SequenceOptions options_;
  std::shared_ptr<const LatticeCriterion> criterion_;  // of whole utterances
  std::shared_ptr<const chain::ChainData> chain_;      // of chunks
  std::vector<float> log_priors_;
};

}  // namespace antiphon::train
