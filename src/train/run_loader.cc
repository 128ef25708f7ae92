#include "train/run_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "train/divided_model.h"
#include "train/experiment.h"
#include "train/timed.h"

namespace antiphon::train {

void RunLoader::StartStrategy() {
  run_.strategy().Start();
  saver_.rendezvous().Saved();
}

bool RunLoader::IsOfAnotherExperiment(const std::filesystem::path& file) const {
  const std::string difference = DifferenceFrom(
      SafetensorsReader(file), ExperimentText(run_.task, run_.options, run_.replica.network(), run_.inputs));
  if (difference.empty()) return false;
  log::Warn("the checkpoint in '{}' belongs to another experiment: {}; starting anew",
            CheckpointPath(run_.task.folder).string(), difference);
  return true;
}

// Stages have neither a fold of their replicas nor a common place in the data.
void RunLoader::RefusePretrainingOfOtherSize() const {
  const CheckpointFolder::OtherRun other = saver_.checkpoints().NewestPretrainingOfOtherSize();
  if (other.step < 0) return;
  const std::filesystem::path file = saver_.checkpoints().PretrainingFile(other.step, 0);
  if (run_.task.anew_if_changed && IsOfAnotherExperiment(file)) return;
  WithContext([&] { RequireSameExperiment(SafetensorsReader(file)); },
              [&] { return fmt::format("checkpoint '{}'", file.string()); });
  Throw<UsageError>(
      "pre-training was broken off with {} worker(s), and other numbers go on only when it is finished: go on with "
      "parallel.workers = {} until then, or start anew without --resume",
      other.world_size, other.world_size);
}

bool RunLoader::LoadPretraining() {
  const auto file = saver_.checkpoints().NewestOfPretraining();
  if (!file) {
    RefusePretrainingOfOtherSize();
    return false;
  }
  if (run_.task.anew_if_changed && IsOfAnotherExperiment(*file)) return false;
  SafetensorsReader reader = saver_.checkpoints().Open(*file);
  WithContext(
      [&] {
        RequireSameExperiment(reader);
        run_.state.position.Load(reader);
        LoadNetwork(reader, "network.", run_.network());
      },
      [&] { return fmt::format("checkpoint '{}'", file->string()); });
  broken_pretraining_.emplace(std::move(reader));
  run_.state.OpenLog();
  saver_.rendezvous().Saved();
  return true;
}

bool RunLoader::LoadNewest() {
  const auto file = saver_.checkpoints().Newest();
  const CheckpointFolder::OtherRun other = NewestOfOtherSize();
  const bool fold = other.step >= 0 && (!file || saver_.checkpoints().File(other.step, run_.comm.rank()) > *file);
  if (!file && !fold) return false;
  const std::filesystem::path first = fold ? saver_.checkpoints().File(other.step, 0) : *file;
  if (run_.task.anew_if_changed && IsOfAnotherExperiment(first)) return false;
  saver_.checkpoints().ClearPretraining();  // should a crash have left any
  StartStrategy();
  if (fold) {
    Fold(other);
  } else {
    Load(*file);
  }
  run_.state.OpenLog();
  const Position& at = run_.position();
  if (run_.comm.rank() == 0) log::Info("going on from step {} in epoch {}", at.step, at.epoch + 1);
  if (!fold) return true;
  run_.state.log().Event(
      at, "workers",
      fmt::format("epoch {}, step {}: {} workers go on where {} were; the rest of the epoch's data is dealt anew",
                  at.epoch + 1, at.step, run_.comm.world_size(), other.world_size));
  saver_.Write();
  return true;
}

void RunLoader::LoadAfterFailure(const Position& failed, int fallbacks) {
  run_.counts.Forget();
  saver_.Finish();
  const auto file = saver_.checkpoints().Newest();
  // Ranks may have been lost since the last one.
  const CheckpointFolder::OtherRun other = NewestOfOtherSize();
  if (other.step >= 0 && (!file || other.step > CheckpointFolder::StepOf(*file))) {
    Fold(other);
  } else if (file) {
    Load(*file);
  } else {
    Throw<DivergenceError>("no sound checkpoint in '{}' to fall back to", CheckpointPath(run_.task.folder).string());
  }
  run_.state.KeepSpent(failed, fallbacks);
  run_.schedule.ScaleRates(run_.options.guard.rate_factor);
  run_.replica.optimizer().ResetState();
  run_.strategy().ResetState();
}

void RunLoader::RequireSameExperiment(const SafetensorsReader& reader) const {
  const std::string difference =
      DifferenceFrom(reader, ExperimentText(run_.task, run_.options, run_.replica.network(), run_.inputs));
  if (difference.empty()) return;
  Throw<InputError>("it belongs to another experiment: {}. Start anew without --resume, or in another folder",
                    difference);
}

// Who was lost meanwhile stays lost.
void RunLoader::LoadPosition(const SafetensorsReader& reader) {
  Position& at = run_.state.position;
  const int64_t lost = at.lost_workers, given_back = at.given_back;
  at.Load(reader);
  at.lost_workers = std::max(at.lost_workers, lost);
  at.given_back = std::max(at.given_back, given_back);
}

void RunLoader::Load(const std::filesystem::path& file) {
  const Timed timed(run_.state.position.other_seconds);
  const SafetensorsReader reader = saver_.checkpoints().Open(file);
  WithContext(
      [&] {
        RequireSameExperiment(reader);
        LoadPosition(reader);
        // Measured layer costs may have divided the model otherwise then.
        if (auto then = LoadParts(reader); then && run_.replica.parts() != nullptr && *then != *run_.replica.parts()) {
          run_.replica.Build(std::move(then), run_.data, run_.schedule.decides());
          StartStrategy();
        }
        LoadNetwork(reader, "network.", run_.network());
        LoadOptimizer(file, reader);
        if (parallel::Checkpointable* const state = run_.strategy().state()) state->LoadState(reader, "strategy");
        run_.strategy().LoadStreams(reader, "streams");
        run_.order.LoadState(reader);
        run_.schedule.LoadState(reader, "schedule");
        run_.kept.Load(reader, run_.network(), run_.position());
      },
      [&] { return fmt::format("checkpoint '{}'", file.string()); });
}

// The same number of ranks may have divided the optimiser's state then and not now, or the reverse.
void RunLoader::LoadOptimizer(const std::filesystem::path& file, const SafetensorsReader& reader) {
  const parallel::ValueShare* const share = run_.replica.value_share();
  const int ranks = share != nullptr ? share->ranks() : 1;
  if (parallel::RanksOfState(reader) == ranks) return run_.replica.optimizer().LoadState(reader, "optimizer");
  std::vector<SafetensorsReader> all =
      saver_.checkpoints().OpenAll({CheckpointFolder::StepOf(file), run_.comm.world_size()});
  parallel::LoadOptimizerFrom(all, static_cast<size_t>(run_.comm.rank()), run_.network(), run_.replica.optimizer(),
                              share);
}

bool RunLoader::IsUsable(const SafetensorsReader& rank) {
  parallel::Checkpointable* const state = run_.strategy().state();
  return state == nullptr || state->IsUsable(rank, "strategy");
}

CheckpointFolder::OtherRun RunLoader::NewestOfOtherSize() {
  return saver_.checkpoints().NewestOfOtherSize([this](const std::vector<SafetensorsReader>& ranks) {
    if (std::ranges::any_of(ranks, [this](const SafetensorsReader& rank) { return IsUsable(rank); })) return true;
    log::Warn("checkpoint '{}' passed over: all {} replicas were to be left out", ranks[0].path().string(),
              ranks.size());
    return false;
  });
}

// Goes on from a run of another number of workers: from the mean of its replicas, at the same place in the data. What
// was left out of their next exchange, perhaps not finite, is no part of that mean.
void RunLoader::Fold(const CheckpointFolder::OtherRun& other) {
  std::vector<SafetensorsReader> ranks = saver_.checkpoints().OpenAll(other);
  std::vector<SafetensorsReader> some;  // of these
  if (!std::ranges::all_of(ranks, [this](const SafetensorsReader& rank) { return IsUsable(rank); })) {
    some = saver_.checkpoints().OpenAll(other);
    std::erase_if(some, [this](const SafetensorsReader& rank) { return !IsUsable(rank); });
    if (run_.comm.rank() == 0) {
      log::Warn("step {}: {} of {} replicas had been left out, and are not gone on from", other.step,
                ranks.size() - some.size(), ranks.size());
    }
  }
  std::vector<SafetensorsReader>& usable = some.empty() ? ranks : some;
  WithContext(
      [&] {
        RequireSameExperiment(ranks[0]);
        FoldPosition(ranks);
        const bool in_epoch = run_.position().step_in_epoch > 0;
        if (in_epoch && run_.data.distribution != Distribution::kPool) {
          Throw<InputError>(
              "{} workers stopped in the middle of an epoch whose data are divided into shares: go on with as many, or "
              "with data.distribution 'pool'",
              other.world_size);
        }
        const bool divided = run_.replica.parts() != nullptr || LoadParts(ranks[0]);
        FoldNetwork(usable, "network.", in_epoch, run_.network());
        run_.replica.optimizer().ResetState();
        if (divided) {
          if (run_.comm.rank() == 0) log::Info("the optimiser begins anew: its state belongs to the parts of then");
        } else {
          parallel::LoadOptimizerFrom(usable, static_cast<size_t>(run_.comm.rank()) % usable.size(), run_.network(),
                                      run_.replica.optimizer(), run_.replica.value_share());
        }
        if (parallel::Checkpointable* const state = run_.strategy().state()) state->LoadFolded(ranks, "strategy");
        FoldStreams(usable);
        run_.order.LoadState(ranks[0]);
        run_.schedule.LoadState(ranks[0], "schedule");
        run_.kept.LoadFolded(usable, run_.network(), run_.position());
      },
      [&] { return fmt::format("step {} of {} workers", other.step, other.world_size); });
}

// All ranks that hold one model together have the same, or each its own.
void RunLoader::FoldStreams(const std::vector<SafetensorsReader>& ranks) {
  run_.strategy().ForgetStreams();
  if (run_.pool().world_size() != 1 || !ranks[0].Has("streams")) return;
  const parallel::DividesTheModel* const division = run_.strategy().division();
  if (division == nullptr || !division->divides_streams()) return run_.strategy().LoadStreams(ranks[0], "streams");
  if (run_.comm.rank() == 0) log::Info("recurrent states begin anew: each rank of then had those of its own streams");
}

// Counts of single workers are dealt to the new ones, sums go to the first.
void RunLoader::FoldPosition(const std::vector<SafetensorsReader>& ranks) {
  Position& at = run_.state.position;
  LoadPosition(ranks[0]);
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
  const int64_t readers = run_.replica.parts() != nullptr ? run_.replica.parts()->ranks() : 1;
  const int64_t readers_then = parts_then ? parts_then->ranks() : 1;
  frames = frames / readers_then * readers;
  epoch_frames = epoch_frames / readers_then * readers;
  for (nn::LossResult* loss : {&epoch_loss, &log_loss}) {
    const double factor = static_cast<double>(readers) / static_cast<double>(readers_then);
    *loss = {loss->loss_sum * factor, loss->weight_sum * factor, loss->correct_sum * factor};
  }
  const int64_t n = run_.comm.world_size();
  const int64_t r = run_.comm.rank();
  at.frames = frames * (r + 1) / n - frames * r / n;
  at.epoch_frames = epoch_frames * (r + 1) / n - epoch_frames * r / n;
  at.bytes_sent = r == 0 ? bytes : 0;
  at.epoch_loss = r == 0 ? epoch_loss : nn::LossResult{};
  at.log_loss = r == 0 ? log_loss : nn::LossResult{};
}

}  // namespace antiphon::train
