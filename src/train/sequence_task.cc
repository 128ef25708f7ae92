#include "train/sequence_task.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/log.h"

namespace antiphon::train {

namespace {

void RequireFit(const TrainingTask& task, const TrainOptions& options) {
  const SequenceOptions& sequence = options.sequence;
  const std::string& name = sequence.criterion.criterion;
  const bool free = sequence.without_lattices();
  if ((free ? sequence.denominator : sequence.lattices).empty()) {
    Throw<UsageError>("sequence.criterion '{}' needs sequence.{}", name,
                      free ? "denominator: the graph that antiphon denominator made"
                           : "lattices: the folder that antiphon lattices made");
  }
  if (!(free ? sequence.lattices : sequence.denominator).empty()) {
    Throw<UsageError>("sequence.criterion '{}' does not look at sequence.{}: leave it out", name,
                      free ? "lattices" : "denominator");
  }
  if (!task.hmm) throw UsageError("sequence training needs the states' HMM: give --hmm, or --initial-model");
  if (!free && (!task.initial || task.initial->log_priors.empty())) {
    Throw<UsageError>(
        "sequence.criterion '{}' goes on from a model with priors: give --initial-model, the one that "
        "the lattices were made with",
        name);
  }
  if (!task.teachers.empty() || options.frames_per_forward > 1) {
    throw UsageError("sequence training goes with neither teachers nor networks that score several frames at a time");
  }
}

}  // namespace

std::shared_ptr<const SequenceTask> SequenceTask::Open(const TrainingTask& task, const TrainOptions& options) {
  const SequenceOptions& wanted = options.sequence;
  if (!wanted.on()) {
    if (wanted.lattices.empty() && wanted.denominator.empty()) return nullptr;
    throw UsageError(
        "sequence.lattices or sequence.denominator are given, but no sequence.criterion (mmi, smbr, mpfe, lf-mmi)");
  }
  RequireFit(task, options);
  auto sequence = std::make_shared<SequenceTask>();
  sequence->options_ = wanted;
  if (wanted.without_lattices()) {
    sequence->log_priors_.assign(static_cast<size_t>(task.hmm->num_pdfs()), 0.0f);
    sequence->criterion_ = std::make_shared<const LatticeFreeCriterion>(
        decode::DenominatorGraph::Load(wanted.denominator, *task.hmm), wanted.lattice_free);
  } else {
    sequence->log_priors_ = task.initial->log_priors;
    sequence->criterion_ =
        std::make_shared<const LatticeCriterion>(std::make_shared<const SequenceData>(wanted.lattices, *task.hmm),
                                                 *task.hmm, sequence->log_priors_, wanted.criterion);
  }
  return sequence;
}

void SequenceTask::KeepThoseWithLattices(const data::FrameStore& store, std::vector<size_t>& utterances) const {
  if (utterances.empty()) {
    utterances.resize(store.utterances().size());
    std::iota(utterances.begin(), utterances.end(), size_t{0});
  }
  const size_t all = utterances.size();
  std::erase_if(utterances, [&](size_t u) { return !criterion_->Has(store.utterances()[u].utt_id); });
  if (utterances.empty()) {
    Throw<InputError>("none of {} utterances of '{}' has a lattice in '{}': were they made from other speech?", all,
                      store.folder().string(), options_.lattices);
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

std::unique_ptr<UtteranceLoss> SequenceTask::MakeLoss(std::shared_ptr<const data::FrameStore> store) const {
  return std::make_unique<UtteranceLoss>(std::move(store), criterion_, options_.cross_entropy_weight);
}

}  // namespace antiphon::train
