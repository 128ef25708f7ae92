#include "train/model_replica.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "adapt/restore.h"
#include "base/error.h"
#include "base/log.h"
#include "nn/layer_traits.h"
#include "parallel/strategy_traits.h"
#include "train/data_share.h"
#include "train/divided_model.h"
#include "train/memory_need.h"
#include "train/random_streams.h"

namespace antiphon::train {

ModelReplica::ModelReplica(const TrainingTask& task, const TrainOptions& options, comm::Communicator& comm,
                           const SequenceTask* sequence)
    : task_(task), options_(options), comm_(comm) {
  Describe();
  RequireFrames(sequence);
}

void ModelReplica::Describe() {
  const data::Context window{options_.data.left_context, options_.data.right_context};
  const int in_dim = task_.store->feat_dim() * window.width();
  const int out_dim = task_.store->num_pdfs() * options_.frames_per_forward;
  constexpr auto kOutline = nn::InitialValues::kOutline;
  if (task_.initial) {
    const nn::Network& initial = task_.initial->network;
    if (initial.in_dim() != in_dim || initial.out_dim() != out_dim) {
      Throw<InputError>("the initial model takes {} values and has {} outputs, the task needs {} and {}",
                        initial.in_dim(), initial.out_dim(), in_dim, out_dim);
    }
    outline_ = nn::Network(Config::Parse(initial.ToToml(), "initial model"), in_dim, out_dim, 0, kOutline);
    return;
  }
  outline_ = nn::Network(task_.network, in_dim, out_dim, 0, kOutline);
  if (options_.normalize_input && !nn::TraitsOf(outline_, 0).input_scaling) {
    const std::string toml = "[[layer]]\ntype = \"normalize\"\nname = \"input\"\n" + outline_.ToToml();
    outline_ = nn::Network(Config::Parse(toml, task_.network.Where()), in_dim, out_dim, 0, kOutline);
  }
}

// What a network of sequences cannot do.
void ModelReplica::RequireFrames(const SequenceTask* sequence) const {
  if (sequence != nullptr) sequence->RequireOutputs(outline_.time_context().stride, options_.data.chunk_frames);
  if (!outline_.needs_sequences()) return;
  if (options_.data.chunk_frames == 0 && sequence == nullptr) {
    throw UsageError(
        "the network looks at several frames of an utterance: set data.chunk-frames, the consecutive frames that "
        "minibatches are made of");
  }
  if (options_.pretrain.method != PretrainMethod::kNone) {
    throw UsageError("pretrain.method grows networks that look at one window of frames at a time: leave it out");
  }
  if (options_.frames_per_forward > 1) {
    throw UsageError("frames-per-forward is for networks that look at one window of frames at a time: leave it out");
  }
}

void ModelReplica::Build(std::unique_ptr<parallel::ModelParts> parts, const RunData& data, bool best_kept) {
  strategy_.reset();
  optimizer_.reset();
  share_.reset();
  parts_ = std::move(parts);
  RequireMemory(best_kept);  // of what is to be made
  if (task_.initial && !parts_) {
    network_ = task_.initial->network.Clone();
  } else {
    const Config description = Config::Parse(outline_.ToToml(), task_.network.Where());
    const std::vector<nn::OutputRange> held = parts_ ? parts_->Of(comm_.rank()) : std::vector<nn::OutputRange>();
    network_ = nn::Network(description, outline_.in_dim(), outline_.out_dim(),
                           SeedOf(task_.seed, RandomStream::kNetwork), nn::InitialValues::kRandom, held);
    if (task_.initial) CopyPart(task_.initial->network, network_);
  }
  if (options_.side.any()) BuildSideTask(data);
  share_ = parallel::DivideValues(task_.parallel, network_, comm_);
  optimizer_ = optim::MakeOptimizer(task_.optimizer, share_ ? share_->stepped() : optim::SteppedValues(network_));
  const parallel::Plan plan = {options_.data.minibatch, data.pool->steps_per_epoch(0), options_.schedule.epochs,
                               !data.pool->options().carry_state};
  targets_ = std::make_unique<TargetMaker>(
      task_.store, Heads{options_.frames_per_forward, options_.first_frame_offset}, task_.teachers, options_.teacher,
      data::Context{options_.data.left_context, options_.data.right_context}, ParsePrecision(options_.precision),
      data.sequence ? data.sequence->MakeLoss(task_.store) : nullptr);
  strategy_ = parallel::MakeStrategy(
      task_.parallel, {&network_, optimizer_.get(), &comm_, plan, parts_.get(), targets_->sequence(), share_.get()});
  RequireMemory(best_kept);
}

void ModelReplica::BuildSideTask(const RunData& data) {
  const parallel::StrategyTraits method = parallel::TraitsOf(task_.parallel);
  if (parts_ || method.divides_network || method.keeps_minibatches) {
    Throw<UsageError>(
        "parallel.method '{}' divides the network or keeps minibatches, neither of which goes with a side "
        "task: take another one",
        parallel::MethodOf(task_.parallel));
  }
  if (!task_.teachers.empty() || options_.frames_per_forward > 1 || data.sequence) {
    throw UsageError(
        "a side task goes with frames that have one pdf-id each: neither with a teacher, nor with several heads, nor "
        "with sequence training");
  }
  const uint64_t seed = SeedOf(task_.seed, RandomStream::kSideTask);
  side_ = std::make_unique<SideSpeech>(options_.side, task_.store, options_.data, data.phones ? &*data.phones : nullptr,
                                       seed, network_.time_context());
  side_->RequireClassesIn(data.train_utterances);
  network_ = adapt::InsertSideTask(network_, options_.side, side_->classes(), seed);
}

// Before the network is made with its weights alone, afterwards with all.
void ModelReplica::RequireMemory(bool best_kept) {
  copies_checkpoints_ = options_.checkpoint.background && !parts_;  // who divides a model has no room for a copy of it
  const auto limit = task_.parallel.Real("device-memory-mb");
  if (!limit) return;
  if (*limit <= 0) {
    Throw<UsageError>("{}: parallel.device-memory-mb must be more than 0, found {}",
                      task_.parallel.Where("device-memory-mb"), *limit);
  }
  MemoryNeed need;
  need.weights = WeightBytes(outline_, parts_ ? parts_->Of(comm_.rank()) : std::vector<nn::OutputRange>());
  if (strategy_) {
    const bool half = ParsePrecision(options_.precision) == Precision::kBf16;
    const size_t of_trainer = (best_kept ? 1 : 0) + (options_.average.share > 0 ? 1 + options_.average.halvings : 0);
    need.copies = strategy_->copy_bytes() + of_trainer * need.weights + (half ? need.weights / 2 : 0);
    need.optimizer = optimizer_->state_bytes();
    if (copies_checkpoints_) {
      need.checkpoint = (1 + of_trainer) * need.weights + strategy_->copy_bytes() + need.optimizer;
    }
    const int64_t frames = int64_t{options_.data.minibatch} * (side_ && side_->joins_speech() ? 2 : 1);
    need.activations = static_cast<size_t>(strategy_->minibatches_under_way()) * ActivationBytes(network_, frames);
    if (comm_.rank() == 0) log::Info("memory of worker 0: {}", need.Describe());
  }
  if (RequireToFit(comm_, need, *limit)) return;
  copies_checkpoints_ = false;
  if (comm_.rank() == 0) log::Info("checkpoints are written between two steps: a copy has no room");
}

parallel::DataShare ModelReplica::share() const {
  return parts_ ? strategy_->data_share() : parallel::DataShare{comm_.rank(), comm_.world_size()};
}

void ModelReplica::NormalizeInput(const RunData& data) {
  if (!nn::TraitsOf(network_, 0).input_scaling || task_.initial) return;
  const data::FeatureMoments moments = EstimateMomentsTogether(comm_, *task_.store, *data.pool, data.train_utterances);
  const auto buffers = network_.layer(0).buffers();
  const int64_t dim = buffers[0]->value.cols();  // none if another rank holds the layer
  const auto feat_dim = static_cast<int64_t>(moments.mean.size());
  for (int64_t i = 0; i < dim; ++i) {
    buffers[0]->value(0, i) = -moments.mean[static_cast<size_t>(i % feat_dim)];
    buffers[1]->value(0, i) = moments.inv_stddev[static_cast<size_t>(i % feat_dim)];
  }
  for (nn::Parameter* p : buffers) p->MarkChanged();
}

uint64_t ModelReplica::Save(nn::Model model, const std::filesystem::path& path) {
  if (parts_) {
    constexpr auto kOutline = nn::InitialValues::kOutline;
    const Config description = Config::Parse(outline_.ToToml(), "network");
    model.network = nn::Network(description, outline_.in_dim(), outline_.out_dim(), 0, kOutline);
    return SaveDividedModel(comm_, *parts_, network_, outline_, model, path);
  }
  if (comm_.rank() == 0) {
    model.network = network_.Clone();
    adapt::RemoveSideTasks(model.network);
    model.Save(path);
  }
  return network_.Hash();
}

}  // namespace antiphon::train
