// Sequence-discriminative training as a whole run sees it: the criterion, and which utterances take part.
//
// Threads: immutable once made.
// Errors: UsageError for runs that cannot be; InputError for utterances of which too few have lattices.
#pragma once

#include <memory>
#include <vector>

#include "data/minibatch_pool.h"
#include "train/sequence_loss.h"
#include "train/trainer.h"

namespace antiphon::train {

class SequenceTask {
 public:
  /// Null for training by frames.
  static std::shared_ptr<const SequenceTask> Open(const TrainingTask& task, const TrainOptions& options);

  /// Takes out the utterances that have no lattice, and says how many; all of the store if `utterances` is empty.
  void KeepThoseWithLattices(const data::FrameStore& store, std::vector<size_t>& utterances) const;
  /// Minibatches of whole utterances.
  data::MinibatchOptions WholeUtterances(const data::FrameStore& store, data::MinibatchOptions options) const;
  std::unique_ptr<UtteranceLoss> MakeLoss(std::shared_ptr<const data::FrameStore> store) const;
  /// Those that scores are taken with, and that the trained model keeps: the initial model's; for lf-mmi none (zeros).
  const std::vector<float>& log_priors() const { return log_priors_; }

 private:
  SequenceOptions options_;
  std::shared_ptr<const UtteranceCriterion> criterion_;
  std::vector<float> log_priors_;
};

}  // namespace antiphon::train
