#include "train/sequence_task.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/log.h"

namespace antiphon::train {

std::shared_ptr<const SequenceTask> SequenceTask::Open(const TrainingTask& task, const TrainOptions& options) {
  if (!options.sequence.on()) {
    if (options.sequence.lattices.empty()) return nullptr;
    throw UsageError("sequence.lattices are given, but no sequence.criterion (mmi, smbr or mpfe)");
  }
  if (options.sequence.lattices.empty()) {
    Throw<UsageError>("sequence.criterion '{}' needs sequence.lattices: the folder that antiphon lattices made",
                      options.sequence.criterion.criterion);
  }
  if (!task.initial || !task.hmm || task.initial->log_priors.empty()) {
    throw UsageError(
        "sequence training goes on from a model with HMM and priors: give --initial-model, the one that the lattices "
        "were made with");
  }
  if (!task.teachers.empty() || options.frames_per_forward > 1) {
    throw UsageError("sequence training goes with neither teachers nor networks that score several frames at a time");
  }
  auto sequence = std::make_shared<SequenceTask>();
  sequence->options_ = options.sequence;
  sequence->data_ = std::make_shared<const SequenceData>(options.sequence.lattices);
  sequence->hmm_ = *task.hmm;
  sequence->log_priors_ = task.initial->log_priors;
  return sequence;
}

void SequenceTask::KeepThoseWithLattices(const data::FrameStore& store, std::vector<size_t>& utterances) const {
  if (utterances.empty()) {
    utterances.resize(store.utterances().size());
    std::iota(utterances.begin(), utterances.end(), size_t{0});
  }
  const size_t all = utterances.size();
  std::erase_if(utterances, [&](size_t u) { return !data_->Has(store.utterances()[u].utt_id); });
  if (utterances.empty()) {
    Throw<InputError>("none of {} utterances of '{}' has a lattice in '{}': were they made from other speech?", all,
                      store.folder().string(), data_->folder().string());
  }
  if (utterances.size() < all) {
    log::Warn("{} of {} utterances have no lattice and are left out of sequence training", all - utterances.size(),
              all);
  }
}

data::MinibatchOptions SequenceTask::WholeUtterances(const data::FrameStore& store,
                                                     data::MinibatchOptions options) const {
  for (const auto& utterance : store.utterances()) {
    options.chunk_frames = std::max(options.chunk_frames, utterance.num_frames);
  }
  options.minibatch = std::max(options.minibatch, options.chunk_frames);
  return options;
}

std::unique_ptr<LatticeLoss> SequenceTask::MakeLoss(std::shared_ptr<const data::FrameStore> store) const {
  return std::make_unique<LatticeLoss>(std::move(store), data_, hmm_, log_priors_, options_);
}

}  // namespace antiphon::train
