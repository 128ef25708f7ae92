// The part of Worker that saves and brings back the state of a run.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "train/agreement.h"
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
  replica_.NormalizeInput(data_);
  checkpoints_.Clear();
  if (comm_.rank() == 0) {
    for (const char* stale : {"model.safetensors", "confusion.json", "report.html"}) {
      std::error_code ignored;
      std::filesystem::remove(task_.folder / stale, ignored);
    }
  }
  comm_.Barrier();
  state_.position = {};
  state_.OpenLog();
}

void Worker::StartStrategy() {
  strategy().Start();
  rendezvous_.Saved();
}

bool Worker::IsOfAnotherExperiment(const std::filesystem::path& file) const {
  const std::string difference =
      DifferenceFrom(SafetensorsReader(file), Experiment(task_, options_, replica_.network()));
  if (difference.empty()) return false;
  log::Warn("the checkpoint in '{}' belongs to another experiment: {}; starting anew",
            CheckpointPath(task_.folder).string(), difference);
  return true;
}

bool Worker::LoadPretraining() {
  const auto file = checkpoints_.NewestOfPretraining();
  if (!file || (task_.anew_if_changed && IsOfAnotherExperiment(*file))) return false;
  WithContext(
      [&] {
        const SafetensorsReader reader(*file);
        RequireSameExperiment(reader);
        state_.position.Load(reader);
        LoadNetwork(reader, "network.", network());
      },
      [&] { return fmt::format("checkpoint '{}'", file->string()); });
  broken_pretraining_ = file;
  state_.OpenLog();
  rendezvous_.Saved();
  return true;
}

bool Worker::LoadNewestCheckpoint() {
  const auto file = checkpoints_.Newest();
  const CheckpointFolder::OtherRun other = checkpoints_.NewestOfOtherSize();
  const bool fold = other.step >= 0 && (!file || checkpoints_.File(other.step, comm_.rank()) > *file);
  if (!file && !fold) return false;
  const std::filesystem::path first = fold ? checkpoints_.File(other.step, 0) : *file;
  if (task_.anew_if_changed && IsOfAnotherExperiment(first)) return false;
  checkpoints_.ClearPretraining();  // should a crash have left any
  StartStrategy();
  if (fold) {
    FoldCheckpoint(other);
  } else {
    LoadCheckpoint(*file);
  }
  state_.OpenLog();
  const Position& at = position();
  if (comm_.rank() == 0) log::Info("going on from step {} in epoch {}", at.step, at.epoch + 1);
  if (!fold) return true;
  log().Event(
      at, "workers",
      fmt::format("epoch {}, step {}: {} workers go on where {} were; the rest of the epoch's data is dealt anew",
                  at.epoch + 1, at.step, comm_.world_size(), other.world_size));
  WriteCheckpoint();
  return true;
}

void Worker::LoadCheckpointAfterFailure(const Position& failed, int fallbacks) {
  FinishWriting();
  const auto file = checkpoints_.Newest();
  if (!file)
    Throw<DivergenceError>("no sound checkpoint in '{}' to fall back to", CheckpointPath(task_.folder).string());
  LoadCheckpoint(*file);
  state_.KeepSpent(failed, fallbacks);
  schedule_.ScaleRates(options_.guard.rate_factor);
  replica_.optimizer().ResetState();
  strategy().ResetState();
}

void Worker::RequireSameExperiment(const SafetensorsReader& reader) const {
  const std::string difference = DifferenceFrom(reader, Experiment(task_, options_, replica_.network()));
  if (difference.empty()) return;
  Throw<InputError>("it belongs to another experiment: {}. Start anew without --resume, or in another folder",
                    difference);
}

void Worker::LoadCheckpoint(const std::filesystem::path& file) {
  const Timed timed(state_.position.other_seconds);
  const SafetensorsReader reader = checkpoints_.Open(file);
  WithContext(
      [&] {
        RequireSameExperiment(reader);
        state_.position.Load(reader);
        // Measured layer costs may have divided the model otherwise then.
        if (auto then = LoadParts(reader); then && parts() != nullptr && *then != *parts()) {
          replica_.Build(std::move(then), data_, schedule_.decides());
          StartStrategy();
        }
        LoadNetwork(reader, "network.", network());
        replica_.optimizer().LoadState(reader, "optimizer");
        if (parallel::Checkpointable* const state = strategy().state()) state->LoadState(reader, "strategy");
        strategy().LoadStreams(reader, "streams");
        order_.LoadState(reader);
        schedule_.LoadState(reader, "schedule");
        kept_.Load(reader, network(), position());
      },
      [&] { return fmt::format("checkpoint '{}'", file.string()); });
}

// Goes on from a run of another number of workers: from the mean of its replicas, at the same place in the data.
void Worker::FoldCheckpoint(const CheckpointFolder::OtherRun& other) {
  const std::vector<SafetensorsReader> ranks = checkpoints_.OpenAll(other);
  WithContext(
      [&] {
        RequireSameExperiment(ranks[0]);
        FoldPosition(ranks);
        const bool in_epoch = position().step_in_epoch > 0;
        if (in_epoch && data_.distribution != Distribution::kPool) {
          Throw<InputError>(
              "{} workers stopped in the middle of an epoch whose data are divided into shares: go on with as many, or "
              "with data.distribution 'pool'",
              other.world_size);
        }
        const bool divided = parts() != nullptr || LoadParts(ranks[0]);
        FoldNetwork(ranks, "network.", in_epoch, network());
        replica_.optimizer().ResetState();
        if (divided) {
          if (comm_.rank() == 0) log::Info("the optimiser begins anew: its state belongs to the parts of then");
        } else {
          replica_.optimizer().LoadState(ranks[static_cast<size_t>(comm_.rank()) % ranks.size()], "optimizer");
        }
        if (parallel::Checkpointable* const state = strategy().state()) state->LoadFolded(ranks, "strategy");
        // All ranks that hold one model together have the same.
        if (pool().world_size() == 1) strategy().LoadStreams(ranks[0], "streams");
        order_.LoadState(ranks[0]);
        schedule_.LoadState(ranks[0], "schedule");
        kept_.LoadFolded(ranks, network(), position());
      },
      [&] { return fmt::format("step {} of {} workers", other.step, other.world_size); });
}

// Counts of single workers are dealt to the new ones, sums go to the first.
void Worker::FoldPosition(const std::vector<SafetensorsReader>& ranks) {
  Position& at = state_.position;
  at.Load(ranks[0]);
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
  const int64_t readers = parts() != nullptr ? parts()->ranks() : 1;
  const int64_t readers_then = parts_then ? parts_then->ranks() : 1;
  frames = frames / readers_then * readers;
  epoch_frames = epoch_frames / readers_then * readers;
  for (nn::LossResult* loss : {&epoch_loss, &log_loss}) {
    const double factor = static_cast<double>(readers) / static_cast<double>(readers_then);
    *loss = {loss->loss_sum * factor, loss->weight_sum * factor, loss->correct_sum * factor};
  }
  const int64_t n = comm_.world_size();
  const int64_t r = comm_.rank();
  at.frames = frames * (r + 1) / n - frames * r / n;
  at.epoch_frames = epoch_frames * (r + 1) / n - epoch_frames * r / n;
  at.bytes_sent = r == 0 ? bytes : 0;
  at.epoch_loss = r == 0 ? epoch_loss : nn::LossResult{};
  at.log_loss = r == 0 ? log_loss : nn::LossResult{};
}

void Worker::WriteCheckpoint() {
  guard_.LookAtValues(network().values(), strategy());
  guard_.AgreeOnDivergence();
  FinishWriting();
  state_.CountBytes();
  if (parallel::Checkpointable* const state = strategy().state()) state->BeforeSave();
  BeginWriting();
  after_loss_ = false;
  rendezvous_.Saved();
}

// What this rank need not write; null: it writes everything.
std::function<bool(std::string_view)> Worker::SavedByFirst() {
  if (comm_.rank() == 0 || parts() != nullptr) return nullptr;
  parallel::Checkpointable* const state = strategy().state();
  const parallel::CommonState common = state != nullptr ? state->common_state() : parallel::CommonState();
  std::set<std::string, std::less<>> names;
  for (const nn::Parameter* p : network().parameters()) {
    if (common.values) names.insert("network." + p->name);
    for (size_t k = 0; common.values_always && k < position().averaged.size(); ++k) {
      names.insert(KeptModels::AveragePrefix(k) + p->name);
    }
    // All have evaluated it (parallel/strategy.h).
    if (strategy().data_share().readers == 1) names.insert("best." + p->name);
  }
  for (const std::string& name : common.tensors) names.insert("strategy" + name);
  return [names = std::move(names), optimizer = common.optimizer](std::string_view name) {
    return names.contains(name) || (optimizer && name.starts_with("optimizer"));
  };
}

void Worker::BeginWriting() {
  Position& at = state_.position;
  log().NotePosition(at);
  at.best_is_current = kept_.BestIsCurrent(network(), comm_);
  auto kept = std::make_shared<SafetensorsWriter>();
  SafetensorsWriter& writer = *kept;
  writer.LeaveOut(SavedByFirst());
  writer.SetMetadata("experiment", Experiment(task_, options_, network()));
  writer.SetMetadata("workers", std::to_string(comm_.world_size()));
  SaveNetwork(writer, "network.", network());
  SaveParts(writer, parts());
  kept_.Save(writer, network(), at);
  replica_.optimizer().SaveState(writer, "optimizer");
  if (parallel::Checkpointable* const state = strategy().state()) state->SaveState(writer, "strategy");
  strategy().SaveStreams(writer, "streams");
  schedule_.SaveState(writer, "schedule");
  order_.SaveState(writer);
  at.Save(writer);
  // Who divides a model has no room for a copy of it.
  checkpoints_.Begin(std::move(kept), at.step, options_.checkpoint.background && parts() == nullptr);
}

void Worker::WritePretrainCheckpoint(int64_t step, const std::function<void(SafetensorsWriter&)>& add_state) {
  log().NotePosition(state_.position);
  SafetensorsWriter writer;
  writer.SetMetadata("experiment", Experiment(task_, options_, network()));
  writer.SetMetadata("workers", std::to_string(comm_.world_size()));
  SaveNetwork(writer, "network.", network());
  position().Save(writer);
  add_state(writer);
  checkpoints_.WritePretraining(writer, step);
  rendezvous_.Saved();
}

void Worker::FinishPretraining() {
  FinishWriting();
  checkpoints_.ClearPretraining();
  broken_pretraining_.reset();
}

}  // namespace antiphon::train
