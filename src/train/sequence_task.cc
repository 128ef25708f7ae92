#include "train/sequence_task.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "train/chunk_loss.h"

namespace antiphon::train {

namespace {

// What each criterion learns from, by the option that names it.
std::string SourceOf(const SequenceOptions& sequence) { return sequence.in_chunks() ? "chain-data" : "lattices"; }

void RequireSource(const SequenceOptions& sequence) {
  const std::string needed = SourceOf(sequence);
  const std::tuple<std::string, std::string, std::string> sources[] = {
      {"lattices", sequence.lattices, "the folder that antiphon lattices made"},
      {"chain-data", sequence.chain_data, "the folder that antiphon chain made"}};
  for (const auto& [name, value, meaning] : sources) {
    if (name == needed && value.empty()) {
      Throw<UsageError>("sequence.criterion '{}' needs sequence.{}: {}", sequence.criterion.criterion, name, meaning);
    }
    if (name != needed && !value.empty()) {
      Throw<UsageError>("sequence.criterion '{}' does not look at sequence.{}: leave it out",
                        sequence.criterion.criterion, name);
    }
  }
}

void RequireFit(const TrainingTask& task, const TrainOptions& options) {
  const SequenceOptions& sequence = options.sequence;
  const std::string& name = sequence.criterion.criterion;
  RequireSource(sequence);
  if (!task.hmm) throw UsageError("sequence training needs the states' HMM: give --hmm, or --initial-model");
  if (SourceOf(sequence) == "lattices" && (!task.initial || task.initial->log_priors.empty())) {
    Throw<UsageError>(
        "sequence.criterion '{}' goes on from a model with priors: give --initial-model, the one that "
        "the lattices were made with",
        name);
  }
  if (sequence.in_chunks() && sequence.cross_entropy_weight > 0) {
    throw UsageError(
        "sequence.criterion 'chain' takes no sequence.cross-entropy-weight: on the same outputs it would make them "
        "posteriors, which they are not; leave it out");
  }
  if (options.frames_per_forward > 1) {
    throw UsageError("sequence training does not go with networks that score several frames at a time");
  }
  if (!task.teachers.empty() && !sequence.in_chunks()) {
    Throw<UsageError>("sequence.criterion '{}' does not go with teachers; 'chain' does", name);
  }
}

}  // namespace

std::shared_ptr<const SequenceTask> SequenceTask::Open(const TrainingTask& task, const TrainOptions& options) {
  const SequenceOptions& wanted = options.sequence;
  if (!wanted.on()) {
    if (wanted.lattices.empty() && wanted.chain_data.empty()) return nullptr;
    throw UsageError(
        "sequence.lattices or sequence.chain-data are given, but no sequence.criterion (mmi, smbr, mpfe, chain)");
  }
  RequireFit(task, options);
  auto sequence = std::make_shared<SequenceTask>();
  sequence->options_ = wanted;
  if (wanted.in_chunks()) {
    sequence->log_priors_.assign(static_cast<size_t>(task.hmm->num_pdfs()), 0.0f);
    sequence->chain_ = std::make_shared<const chain::ChainData>(chain::ChainData::Load(wanted.chain_data));
    if (sequence->chain_->model.StructureChecksum() != task.hmm->StructureChecksum()) {
      Throw<UsageError>("the HMM is not that of '{}': give --hmm={}/model.safetensors", wanted.chain_data,
                        wanted.chain_data);
    }
  } else {
    sequence->log_priors_ = task.initial->log_priors;
    sequence->criterion_ =
        std::make_shared<const LatticeCriterion>(std::make_shared<const SequenceData>(wanted.lattices, *task.hmm),
                                                 *task.hmm, sequence->log_priors_, wanted.criterion);
  }
  return sequence;
}

void SequenceTask::KeepThoseThatAreKnown(const data::FrameStore& store, std::vector<size_t>& utterances) const {
  if (utterances.empty()) {
    utterances.resize(store.utterances().size());
    std::iota(utterances.begin(), utterances.end(), size_t{0});
  }
  const size_t all = utterances.size();
  std::erase_if(utterances, [&](size_t u) {
    const std::string& utt_id = store.utterances()[u].utt_id;
    return chain_ ? !chain_->references.Find(utt_id).has_value() : !criterion_->Has(utt_id);
  });
  if (utterances.empty()) {
    Throw<InputError>("none of {} utterances of '{}' is in '{}': was that made from other speech?", all,
                      store.folder().string(), chain_ ? options_.chain_data : options_.lattices);
  }
  if (utterances.size() < all) {
    log::Warn("{} of {} utterances are not in '{}' and are left out of sequence training", all - utterances.size(), all,
              chain_ ? options_.chain_data : options_.lattices);
  }
}

void SequenceTask::RequireOutputs(int stride, int chunk_frames) const {
  if (!chain_) {
    if (stride == 1) return;
    Throw<UsageError>(
        "sequence training by '{}' needs an output for every frame, but this network gives one for every {} frames: "
        "take layers without a stride",
        options_.criterion.criterion, stride);
  }
  if (stride != chain_->step) {
    Throw<UsageError>(
        "'{}' was made for an output every {} frames, but this network gives one for every {}: take layers whose "
        "strides multiply to {}, or make the folder anew with --frames-per-output={}",
        options_.chain_data, chain_->step, stride, chain_->step, stride);
  }
  if (chunk_frames == 0) {
    throw UsageError("sequence.criterion 'chain' learns from chunks: set data.chunk-frames (150, say)");
  }
}

data::MinibatchOptions SequenceTask::Pieces(const data::FrameStore& store, data::MinibatchOptions options) const {
  if (chain_) return options;
  for (const auto& utterance : store.utterances()) {
    options.chunk_frames = std::max(options.chunk_frames, utterance.num_frames);
  }
  options.other_chunk_frames.clear();
  options.minibatch = std::max(options.minibatch, options.chunk_frames);
  return options;
}

std::unique_ptr<MinibatchLoss> SequenceTask::MakeLoss(std::shared_ptr<const data::FrameStore> store) const {
  if (chain_) return std::make_unique<ChunkLoss>(std::move(store), chain_, options_.chain);
  return std::make_unique<UtteranceLoss>(std::move(store), criterion_, options_.cross_entropy_weight);
}

}  // namespace antiphon::train
