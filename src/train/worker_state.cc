// The part of Worker that keeps, saves and brings back states of the model.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "base/log.h"
#include "base/random.h"
#include "comm/fault_injection.h"
#include "kernels/reductions.h"
#include "math/finite.h"
#include "nn/layer_traits.h"
#include "train/agreement.h"
#include "train/data_share.h"
#include "train/divided_model.h"
#include "train/text_difference.h"
#include "train/worker.h"

namespace antiphon::train {
namespace {

// Earlier versions' checkpoints do not name options that came later and have no say in the model.
std::string WithoutLaterKeys(std::string options) {
  const std::string key = "background = true\n";
  if (const size_t at = options.find(key); at != std::string::npos) options.erase(at, key.size());
  return options;
}

// What must be the same for a checkpoint to be continued: everything that has a say in the model. Intervals of
// checkpoints and log lines may change, and so may the number of workers, which is told.
std::string Experiment(const TrainingTask& task, TrainOptions options, const nn::Network& network) {
  options.checkpoint = {};
  options.guard = {};
  options.log_steps = 1;
  options.data.prefetch = 0;
  options.data.cache = {};
  options.deadline_seconds = TrainOptions().deadline_seconds;
  Config parallel = Config::Parse(task.parallel.ToToml(), "parallel");
  parallel.Set("workers", "0");
  parallel.Set("device-memory-mb", "0");
  return fmt::format("seed = {}\n{}data = \"{:016x}\"\nheld_out = \"{:016x}\"\n{}\n[optimizer]\n{}\n[parallel]\n{}\n{}",
                     task.seed, DescribeModels(task), task.store->fingerprint(),
                     task.held_out_store ? task.held_out_store->fingerprint() : 0,
                     WithoutLaterKeys(OptionsToConfig(options).ToToml()), task.optimizer.ToToml(), parallel.ToToml(),
                     network.ToToml());
}

// Of the experiment that left the checkpoint and this one, as a message; empty if there is none.
std::string DifferenceFrom(const SafetensorsReader& reader, const std::string& experiment) {
  const auto lines = FirstDifference(reader.Metadata("experiment"), experiment);
  return lines ? fmt::format("'{}' then, '{}' now", lines->first, lines->second) : "";
}

}  // namespace

void Worker::StartAnew() {
  if (nn::TraitsOf(network_, 0).input_scaling && !task_.initial) NormalizeInput();
  checkpoints_.Clear();
  pretraining_.Clear();
  if (comm_.rank() == 0) {
    for (const char* stale : {"model.safetensors", "confusion.json", "report.html"}) {
      std::error_code ignored;
      std::filesystem::remove(task_.folder / stale, ignored);
    }
  }
  comm_.Barrier();
  position_ = {};
  log_ = std::make_unique<RunLog>(task_.folder, comm_.rank() == 0, 0, 0);
}

void Worker::NormalizeInput() {
  const data::FeatureMoments moments = EstimateMomentsTogether(comm_, *task_.store, *pool_, train_utterances_);
  const auto buffers = network_.layer(0).buffers();
  const int64_t dim = buffers[0]->value.cols();  // none if another rank holds the layer
  const auto feat_dim = static_cast<int64_t>(moments.mean.size());
  for (int64_t i = 0; i < dim; ++i) {
    buffers[0]->value(0, i) = -moments.mean[static_cast<size_t>(i % feat_dim)];
    buffers[1]->value(0, i) = moments.inv_stddev[static_cast<size_t>(i % feat_dim)];
  }
  for (nn::Parameter* p : buffers) p->MarkChanged();
}

// So that files of two starts of the program are never taken for those of one. In a simulation they are the same.
void Worker::DrawWritingNumber() {
  if (comm_.world_size() == 1 || comm_.time_is_virtual()) return;
  writing_number_ = static_cast<uint64_t>(std::random_device()()) << 32;
  comm_.Broadcast(0, std::as_writable_bytes(std::span(&writing_number_, 1)));
}

void Worker::StartStrategy() {
  strategy_->Start();
  last_checkpoint_ = std::chrono::steady_clock::now();
}

// The newest step of which every rank has a sound file; ranks may have lost different ones.
std::optional<std::filesystem::path> Worker::NewestCheckpoint(const CheckpointFolder& folder) {
  int64_t limit = std::numeric_limits<int64_t>::max();
  for (;;) {
    const SoundFile mine = folder.NewestSound(limit).value_or(SoundFile{});
    std::vector<std::byte> bytes;
    comm_.Together([&] { bytes = comm_.AllGather(std::as_bytes(std::span(&mine, 1))); });
    std::vector<SoundFile> all(static_cast<size_t>(comm_.world_size()));
    std::memcpy(all.data(), bytes.data(), bytes.size());
    const auto less = [](const SoundFile& a, const SoundFile& b) { return a.step < b.step; };
    const auto [oldest, newest] = std::minmax_element(all.begin(), all.end(), less);
    if (oldest->step < 0) return std::nullopt;
    const bool together =
        std::all_of(all.begin(), all.end(), [&](const SoundFile& f) { return f.writing == mine.writing; });
    if (oldest->step == newest->step && together) return folder.File(mine.step);
    // Of one step, but not of one writing: a crash left some of the older ones.
    limit = oldest->step == newest->step ? oldest->step - 1 : oldest->step;
  }
}

// This rank's file, with what rank 0 saved for it. Ranks may have folders of their own: who does not see rank 0's file
// is sent it.
SafetensorsReader Worker::OpenCheckpoint(const std::filesystem::path& file) {
  SafetensorsReader own(file);
  if (comm_.world_size() == 1) return own;
  std::shared_ptr<const SafetensorsReader> first;
  const bool needed = !CommonNames(own).empty();
  const std::filesystem::path first_file = checkpoints_.File(checkpoints_.StepOf(file), 0);
  std::error_code unknown;
  if (needed && std::filesystem::exists(first_file, unknown)) {
    first = std::make_shared<const SafetensorsReader>(first_file);
    if (WritingOf(*first) != WritingOf(own)) first.reset();
  }
  if (SumOfAll({needed && !first ? 1.0 : 0.0})[0] > 0) {
    struct Sent {
      std::vector<std::byte> bytes;
      std::optional<SafetensorsReader> reader;
    };
    const auto sent = std::make_shared<Sent>();
    if (comm_.rank() == 0) {
      const MappedFile mapped(file);
      sent->bytes.assign(mapped.bytes().begin(), mapped.bytes().end());
    }
    comm_.Together([&] {
      uint64_t size = sent->bytes.size();
      comm_.Broadcast(0, std::as_writable_bytes(std::span(&size, 1)));
      sent->bytes.resize(size);
      comm_.Broadcast(0, std::span(sent->bytes));
    });
    if (needed && !first) {
      sent->reader.emplace(std::span<const std::byte>(sent->bytes), "rank 0's " + first_file.filename().string());
      first = std::shared_ptr<const SafetensorsReader>(sent, &*sent->reader);
    }
  }
  if (needed) TakeCommon(own, first);
  return own;
}

bool Worker::IsOfAnotherExperiment(const std::filesystem::path& file) const {
  const std::string difference = DifferenceFrom(SafetensorsReader(file), Experiment(task_, options_, network_));
  if (difference.empty()) return false;
  log::Warn("the checkpoint in '{}' belongs to another experiment: {}; starting anew",
            CheckpointPath(task_.folder).string(), difference);
  return true;
}

bool Worker::LoadPretraining() {
  const auto file = NewestCheckpoint(pretraining_);
  if (!file || (task_.anew_if_changed && IsOfAnotherExperiment(*file))) return false;
  WithContext(
      [&] {
        const SafetensorsReader reader(*file);
        RequireSameExperiment(reader);
        position_.Load(reader);
        LoadNetwork(reader, "network.", network_);
      },
      [&] { return fmt::format("checkpoint '{}'", file->string()); });
  broken_pretraining_ = file;
  log_ = std::make_unique<RunLog>(task_.folder, comm_.rank() == 0, position_.metrics_bytes, position_.events_bytes);
  last_checkpoint_ = std::chrono::steady_clock::now();
  return true;
}

bool Worker::LoadNewestCheckpoint() {
  const auto file = NewestCheckpoint(checkpoints_);
  // Ranks may have folders of their own; those of a run of another size have to be where the first one looks.
  CheckpointFolder::OtherRun other;
  if (comm_.rank() == 0) other = checkpoints_.NewestOfOtherSize().value_or(other);
  comm_.Broadcast(0, std::as_writable_bytes(std::span(&other, 1)));
  const bool fold = other.step >= 0 && (!file || checkpoints_.File(other.step) > *file);
  if (!file && !fold) return false;
  const std::filesystem::path first = fold ? checkpoints_.File(other.step, 0) : *file;
  if (task_.anew_if_changed && IsOfAnotherExperiment(first)) return false;
  pretraining_.Clear();  // should a crash have left any
  StartStrategy();
  if (fold) {
    FoldCheckpoint(other);
  } else {
    LoadCheckpoint(*file);
  }
  log_ = std::make_unique<RunLog>(task_.folder, comm_.rank() == 0, position_.metrics_bytes, position_.events_bytes);
  if (comm_.rank() == 0) log::Info("going on from step {} in epoch {}", position_.step, position_.epoch + 1);
  if (!fold) return true;
  log_->Event(
      position_, "workers",
      fmt::format("epoch {}, step {}: {} workers go on where {} were; the rest of the epoch's data is dealt anew",
                  position_.epoch + 1, position_.step, comm_.world_size(), other.world_size));
  WriteCheckpoint();
  return true;
}

void Worker::LoadCheckpointAfterFailure(const Position& failed, int fallbacks) {
  FinishWriting();
  const auto file = NewestCheckpoint(checkpoints_);
  if (!file)
    Throw<DivergenceError>("no sound checkpoint in '{}' to fall back to", CheckpointPath(task_.folder).string());
  LoadCheckpoint(*file);
  // What was written and spent meanwhile did happen.
  position_.metrics_bytes = failed.metrics_bytes;
  position_.events_bytes = failed.events_bytes;
  position_.arithmetic_seconds = failed.arithmetic_seconds;
  position_.data_seconds = failed.data_seconds;
  position_.communication_seconds = failed.communication_seconds;
  position_.other_seconds = failed.other_seconds;
  position_.bytes_sent = failed.bytes_sent;
  position_.fallbacks = fallbacks;
  position_.running_loss = -1;
  schedule_.ScaleRates(options_.guard.rate_factor);
  optimizer_->ResetState();
  strategy_->ResetState();
}

void Worker::RequireSameExperiment(const SafetensorsReader& reader) const {
  const std::string difference = DifferenceFrom(reader, Experiment(task_, options_, network_));
  if (difference.empty()) return;
  Throw<InputError>("it belongs to another experiment: {}. Start anew without --resume, or in another folder",
                    difference);
}

void Worker::LoadBest(const SafetensorsReader& reader) {
  best_.reset();
  if (!schedule_.decides()) return;
  best_ = network_.Clone();
  if (!position_.best_is_current) LoadNetwork(reader, "best.", *best_);
}

void Worker::LoadCheckpoint(const std::filesystem::path& file) {
  const Timed timed(position_.other_seconds);
  const SafetensorsReader reader = OpenCheckpoint(file);
  WithContext(
      [&] {
        RequireSameExperiment(reader);
        position_.Load(reader);
        // Measured layer costs may have divided the model otherwise then.
        if (auto parts = LoadParts(reader); parts && parts_ && *parts != *parts_) {
          Build(std::move(parts));
          StartStrategy();
        }
        LoadNetwork(reader, "network.", network_);
        optimizer_->LoadState(reader, "optimizer");
        if (parallel::Checkpointable* const state = strategy_->state()) state->LoadState(reader, "strategy");
        strategy_->LoadStreams(reader, "streams");
        order_.LoadState(reader);
        schedule_.LoadState(reader, "schedule");
        average_.clear();
        if (position_.averaged > 0) {
          average_.assign(network_.num_values(), 0.0f);
          for (const nn::Parameter* p : network_.parameters()) {
            reader.ReadInto("average." + p->name,
                            MatrixView(average_.data() + p->offset, p->value.rows(), p->value.cols()));
          }
        }
        LoadBest(reader);
      },
      [&] { return fmt::format("checkpoint '{}'", file.string()); });
}

// Goes on from a run of another number of workers: from the mean of its replicas, at the same place in the data.
void Worker::FoldCheckpoint(const CheckpointFolder::OtherRun& other) {
  const std::vector<SafetensorsReader> ranks = checkpoints_.OpenAll(other.step, other.world_size);
  WithContext(
      [&] {
        RequireSameExperiment(ranks[0]);
        FoldPosition(ranks);
        if (position_.step_in_epoch > 0 && distribution_ != Distribution::kPool) {
          Throw<InputError>(
              "{} workers stopped in the middle of an epoch whose data are divided into shares: go on with as many, or "
              "with data.distribution 'pool'",
              other.world_size);
        }
        const bool divided = parts_ || LoadParts(ranks[0]);
        FoldNetwork(ranks, "network.", position_.step_in_epoch > 0, network_);
        average_.assign(position_.averaged > 0 ? network_.num_values() : 0, 0.0f);
        if (!average_.empty()) FoldValues(ranks, "average.", true, network_, average_);
        optimizer_->ResetState();
        if (divided) {
          if (comm_.rank() == 0) log::Info("the optimiser begins anew: its state belongs to the parts of then");
        } else {
          optimizer_->LoadState(ranks[static_cast<size_t>(comm_.rank()) % ranks.size()], "optimizer");
        }
        if (parallel::Checkpointable* const state = strategy_->state()) state->LoadFolded(ranks, "strategy");
        // All ranks that hold one model together have the same.
        if (pool_->world_size() == 1) strategy_->LoadStreams(ranks[0], "streams");
        order_.LoadState(ranks[0]);
        schedule_.LoadState(ranks[0], "schedule");
        if (schedule_.decides()) {
          best_ = network_.Clone();
          if (!position_.best_is_current) FoldNetwork(ranks, "best.", false, *best_);
        }
      },
      [&] { return fmt::format("step {} of {} workers", other.step, other.world_size); });
}

// Counts of single workers are dealt to the new ones, sums go to the first.
void Worker::FoldPosition(const std::vector<SafetensorsReader>& ranks) {
  position_.Load(ranks[0]);
  int64_t frames = 0, epoch_frames = 0, bytes = 0;
  nn::LossResult epoch_loss, log_loss;
  for (const SafetensorsReader& reader : ranks) {
    Position theirs;
    theirs.Load(reader);
    frames += theirs.frames;
    epoch_frames += theirs.epoch_frames;
    bytes += theirs.bytes_sent;
    epoch_loss += theirs.epoch_loss;
    log_loss += theirs.log_loss;
  }
  // Ranks that hold one replica together all tell of the same frames.
  const std::unique_ptr<parallel::ModelParts> parts_then = LoadParts(ranks[0]);
  const int64_t readers = parts_ ? parts_->ranks() : 1;
  const int64_t readers_then = parts_then ? parts_then->ranks() : 1;
  frames = frames / readers_then * readers;
  epoch_frames = epoch_frames / readers_then * readers;
  for (nn::LossResult* loss : {&epoch_loss, &log_loss}) {
    const double factor = static_cast<double>(readers) / static_cast<double>(readers_then);
    *loss = {loss->loss_sum * factor, loss->weight_sum * factor, loss->correct_sum * factor};
  }
  const int64_t n = comm_.world_size();
  const int64_t r = comm_.rank();
  position_.frames = frames * (r + 1) / n - frames * r / n;
  position_.epoch_frames = epoch_frames * (r + 1) / n - epoch_frames * r / n;
  position_.bytes_sent = r == 0 ? bytes : 0;
  position_.epoch_loss = r == 0 ? epoch_loss : nn::LossResult{};
  position_.log_loss = r == 0 ? log_loss : nn::LossResult{};
}

void Worker::WriteCheckpoint() {
  if (!AllFinite(network_.values()) && (comm_.world_size() == 1 || !strategy_->LeaveOut())) {
    divergence_ = "a parameter is not finite";
  }
  AgreeOnDivergence();
  FinishWriting();
  CountBytes();
  if (parallel::Checkpointable* const state = strategy_->state()) state->BeforeSave();
  BeginWriting();
  after_loss_ = false;
  last_checkpoint_ = std::chrono::steady_clock::now();
}

void Worker::FinishWriting() {
  comm_.Together([this] {
    writing_.Finish();
    if (comm_.world_size() > 1) comm_.Barrier();
  });
  // Older ones go when every rank has this one, whatever happens meanwhile.
  checkpoints_.RemoveOld();
}

void Worker::Stop() {
  FinishWriting();
  throw Cancelled(CancelledMessage());
}

// What this rank need not write; null: it writes everything.
std::function<bool(std::string_view)> Worker::SavedByFirst() const {
  if (comm_.rank() == 0 || parts_) return nullptr;
  parallel::Checkpointable* const state = strategy_->state();
  const parallel::CommonState common = state != nullptr ? state->common_state() : parallel::CommonState();
  std::set<std::string, std::less<>> names;
  for (const nn::Parameter* p : network_.parameters()) {
    if (common.values) names.insert("network." + p->name);
    if (common.values_always) names.insert("average." + p->name);
    // All have evaluated it (parallel/strategy.h).
    if (strategy_->data_share().readers == 1) names.insert("best." + p->name);
  }
  for (const std::string& name : common.tensors) names.insert("strategy" + name);
  return [names = std::move(names), optimizer = common.optimizer](std::string_view name) {
    return names.contains(name) || (optimizer && name.starts_with("optimizer"));
  };
}

void Worker::BeginWriting() {
  log_->NotePosition(position_);
  position_.best_is_current = BestIsCurrent();
  auto kept = std::make_shared<SafetensorsWriter>();
  SafetensorsWriter& writer = *kept;
  writer.LeaveOut(SavedByFirst());
  writer.SetMetadata("experiment", Experiment(task_, options_, network_));
  writer.SetMetadata("workers", std::to_string(comm_.world_size()));
  SaveNetwork(writer, "network.", network_);
  SaveParts(writer, parts_.get());
  if (!position_.best_is_current) SaveNetwork(writer, "best.", *best_);
  if (!average_.empty()) SaveValues(writer, "average.", network_, average_);
  optimizer_->SaveState(writer, "optimizer");
  if (parallel::Checkpointable* const state = strategy_->state()) state->SaveState(writer, "strategy");
  strategy_->SaveStreams(writer, "streams");
  schedule_.SaveState(writer, "schedule");
  order_.SaveState(writer);
  position_.Save(writer);
  NoteWriting(writer, ++writing_number_);
  const auto write = [kept, file = checkpoints_.File(position_.step), step = position_.step, rank = comm_.rank()] {
    comm::FaultPoint("saving", rank, step);
    WithContext([&] { kept->Write(file); },
                [&] { return fmt::format("saving step {} (older checkpoints are whole)", step); });
    comm::FaultPoint("checkpoint", rank, step);
  };
  // Who divides a model has no room for a copy of it.
  if (!options_.checkpoint.background || parts_) {
    write();
    return FinishWriting();
  }
  writer.Own();
  writing_.Begin(write);
}

void Worker::WritePretrainCheckpoint(int64_t step, const std::function<void(SafetensorsWriter&)>& add_state) {
  log_->NotePosition(position_);
  SafetensorsWriter writer;
  writer.SetMetadata("experiment", Experiment(task_, options_, network_));
  writer.SetMetadata("workers", std::to_string(comm_.world_size()));
  SaveNetwork(writer, "network.", network_);
  position_.Save(writer);
  add_state(writer);
  WithContext([&] { writer.Write(pretraining_.File(step)); },
              [&] { return fmt::format("saving step {} of pre-training (older checkpoints are whole)", step); });
  if (comm_.world_size() > 1) comm_.Barrier();
  pretraining_.RemoveOld();
  last_checkpoint_ = std::chrono::steady_clock::now();
}

void Worker::FinishPretraining() {
  FinishWriting();
  pretraining_.Clear();
  std::error_code not_empty_yet;
  std::filesystem::remove(CheckpointPath(task_.folder) / "pretraining", not_empty_yet);
  broken_pretraining_.reset();
}

bool Worker::CheckpointDue(int64_t step) const {
  const CheckpointOptions& options = options_.checkpoint;
  if (options.steps > 0 && step % options.steps == 0) return true;
  // What the machine's clock says must not get into a simulation.
  if (comm_.time_is_virtual()) return false;
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - last_checkpoint_;
  return options.minutes > 0 && since.count() >= 60 * options.minutes;
}

void Worker::RememberBest() {
  if (!schedule_.decides()) return;
  if (best_) {
    best_->CopyFrom(network_);
  } else {
    best_ = network_.Clone();
  }
}

// The same on all ranks, so that rank 0 has it if any has.
bool Worker::BestIsCurrent() {
  if (!best_) return true;
  const double differs = best_->Hash() != network_.Hash() ? 1 : 0;
  return comm_.world_size() == 1 ? differs == 0 : SumOfAll({differs})[0] == 0;
}

void Worker::RestoreBest() {
  network_.CopyFrom(*best_);
  optimizer_->ResetState();
  strategy_->ResetState();
}

// Replicas may have averaged different models: their mean counts.
void Worker::SwapInAverage() {
  strategy_->MeanOverReplicas(average_);
  std::copy(average_.begin(), average_.end(), network_.values().begin());
  network_.MarkChanged();
}

}  // namespace antiphon::train
