// Sequence-discriminative training as a whole run sees it: lattices, the model that they were made with, and which
// utterances take part.
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
  std::unique_ptr<LatticeLoss> MakeLoss(std::shared_ptr<const data::FrameStore> store) const;
  /// The initial model's, which scores are taken with, and which the trained model keeps.
  const std::vector<float>& log_priors() const { return log_priors_; }

 private:
  SequenceOptions options_;
  std::shared_ptr<const SequenceData> data_;
  hmm::HmmModel hmm_;
  std::vector<float> log_priors_;
};

}  // namespace antiphon::train
