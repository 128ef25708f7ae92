#include "train/training_request.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/same_place.h"
#include "base/toml_text.h"
#include "data/feature_kind.h"
#include "hmm/gmm_model.h"
#include "hmm/hmm_file.h"
#include "hmm/ivector.h"
#include "math/safetensors.h"
#include "train/data_share.h"
#include "train/experiment.h"
#include "train/log_to.h"
#include "train/rendezvous.h"
#include "train/side_speech.h"
#include "train/warm_start.h"
#include "train/workers_request.h"
#include "train/world.h"

namespace antiphon::train {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> ReadSpeakerModel(const TrainingRequest& request, const TrainingTask& task) {
  const hmm::GmmModel model = hmm::GmmModel::Load(request.speaker_model);
  if (model.transform.out_dim() != task.store->feat_dim()) {
    Throw<InputError>("the store '{}' has {} features per frame, but those of the speaker model '{}' have {}",
                      request.store, task.store->feat_dim(), request.speaker_model, model.transform.out_dim());
  }
  const MappedFile file(request.speaker_model);
  return {file.bytes().begin(), file.bytes().end()};
}

std::vector<std::byte> ReadExtractor(const TrainingRequest& request, const data::FrameStore& store) {
  if (!request.speaker_model.empty()) {
    throw UsageError("--ivector-extractor and --speaker-model exclude each other: a store holds one of both");
  }
  const auto extractor = hmm::IvectorExtractor::Load(request.ivector_extractor);
  const MappedFile file(request.ivector_extractor);
  const data::FeatureKind kind = data::KindOf(store);
  if (kind.speaker_vectors != hmm::ExtractorChecksum(file.bytes())) {
    Throw<InputError>(
        "the store '{}' {}, not vectors of the extractor '{}': make them by it (antiphon ivectors --online) and the "
        "store with them",
        request.store,
        kind.speaker_vectors.empty() ? "holds none that were made --online" : "holds another extractor's",
        request.ivector_extractor);
  }
  if (extractor.feature_dim() + extractor.dim() != store.feat_dim()) {
    Throw<InputError>("the store '{}' has {} features per frame, but the extractor '{}' is for {} and gives {} more",
                      request.store, store.feat_dim(), request.ivector_extractor, extractor.feature_dim(),
                      extractor.dim());
  }
  return {file.bytes().begin(), file.bytes().end()};
}

Config NetworkConfig(const TrainingRequest& request) {
  if (!request.initial_model.empty()) {
    if (!request.network_file.empty() || request.network) {
      throw UsageError("the network comes from --initial-model: leave out --network-file and the table `network`");
    }
    return Config();
  }
  if (request.network_file.empty()) {
    if (!request.network) {
      throw UsageError(
          "no network: it needs [[network.layer]] tables in the configuration, or network-file (--network-file FILE)");
    }
    return *request.network;
  }
  if (request.network) throw UsageError("both `network` tables and --network-file: leave one of them out");
  return Config::Load(request.network_file);
}

// A run begins by removing the model of an earlier one.
void RequireOtherModels(const TrainingRequest& request) {
  std::vector<std::string> read = request.train.teacher.models;
  read.insert(read.end(), {request.initial_model, request.hmm, request.speaker_model, request.ivector_extractor});
  for (const std::string& file : read) RequireOtherPlace(file, ModelFile(request.out), "this model");
}

// Reads in every process, so that what one cannot read ends all with its reason.
TrainingTask ReadTaskTogether(const TrainingRequest& request, const TrainingHost& host) {
  if (host.group.num_processes() == 1) return ReadTask(request);
  std::optional<TrainingTask> task;
  host.group.RunRanks(host.group.num_processes(), [&](comm::Communicator& comm) {
    WithContext([&] { task = ReadTask(request); },
                [&] { return fmt::format("process {} of {}", comm.rank(), comm.world_size()); });
    comm.Barrier();
  });
  return std::move(*task);
}

// What a training that diverged may have too much of.
std::string StrengthOf(const adapt::SideTaskOptions& side) {
  std::string text = fmt::format("with a side task of side.weight {}", side.weight);
  if (side.adversarial) text += fmt::format(" and side.most {}", side.most);
  return text + ", to be lowered first";
}

}  // namespace

TrainingRequest::TrainingRequest() = default;

void TakeTables(const Config& config, TrainingRequest& request) {
  if (config.Has("network")) request.network = config.Table("network");
  request.optimizer = config.Table("optimizer");
  request.parallel = config.Table("parallel");
  request.cluster = config.Table("cluster");
}

void PrepareRequest(TrainingRequest& request) {
  if (!request.initial_model.empty()) TakeShape(nn::Model::Load(request.initial_model), request.train);
  if (request.out.empty()) throw UsageError("--out is missing: the folder of the run");
  RequireOtherModels(request);
  CheckSideTask(request.train.side);
  CheckTargets(request.log_to);
}

TrainingTask ReadTask(const TrainingRequest& request) {
  TrainingTask task;
  if (!request.initial_model.empty()) {
    task = TaskFrom(std::make_shared<const nn::Model>(nn::Model::Load(request.initial_model)));
  }
  task.teachers = LoadTeachers(request.train.teacher);
  data::FrameStoreAccess access;
  access.cache = request.train.data.cache;
  if (!request.held_out_store.empty()) {
    task.held_out_store = std::make_shared<const data::FrameStore>(request.held_out_store, access);
  }
  access.all_shards = request.train.data.distribution != Distribution::kShards;
  task.store = std::make_shared<const data::FrameStore>(request.store, access);
  task.folder = request.out;
  task.network = NetworkConfig(request);
  task.optimizer = request.optimizer;
  task.parallel = request.parallel;
  if (!request.hmm.empty()) task.hmm = hmm::FindHmm(request.hmm);
  if (task.feature_config.empty() || !request.front_end.empty()) {
    task.feature_config = data::FrontEndFor(*task.store, request.front_end, !request.speaker_model.empty());
  }
  if (!request.speaker_model.empty()) task.speaker_model = ReadSpeakerModel(request, task);
  if (!request.ivector_extractor.empty()) task.ivector_extractor = ReadExtractor(request, *task.store);
  task.seed = request.seed;
  task.anew_if_changed = request.anew_if_changed;
  task.note = request.note;
  task.resume_hint = request.resume_hint;
  task.pause_after_epochs = request.pause_after_epochs;
  task.on_metrics = request.on_metrics;
  return task;
}

std::string DescribeFiles(const TrainingRequest& request) {
  std::string lines;
  for (const std::string& store : {request.store, request.held_out_store}) {
    if (!store.empty()) lines += fmt::format("store {:016x}\n", FingerprintOf(store));
  }
  std::vector<std::string> files = {request.hmm,           request.front_end,         request.network_file,
                                    request.speaker_model, request.ivector_extractor, request.initial_model};
  const feat::AugmentOptions& augment = request.train.data.augment;
  for (const auto* more : {&request.train.teacher.models, &augment.noise_files, &augment.reverb_files}) {
    files.insert(files.end(), more->begin(), more->end());
  }
  for (const std::string& file : files) {
    if (!file.empty()) lines += fmt::format("file {:016x}\n", Checksum(MappedFile(file).bytes()));
  }
  return lines + DescribeInputs(request.train);
}

std::string EffectiveConfig(const TrainingRequest& request, const TrainingTask& task) {
  Config config = OptionsToConfig(request);
  config.Set("resume", "false");
  config.Set("note", "\"\"");
  config.Set("network-file", "\"\"");
  config.Set("seed", std::to_string(request.seed));
  config.Set("threads", std::to_string(request.threads));
  // Keys of no table come first.
  std::string toml = request.of_caller.ToToml();
  if (!toml.empty() && !toml.ends_with('\n')) toml += '\n';
  toml += config.ToToml();
  for (const auto& [name, table] : {std::pair("optimizer", request.optimizer), std::pair("parallel", request.parallel),
                                    std::pair("cluster", request.cluster)}) {
    if (!table.Keys().empty()) toml += "\n" + TomlAsTable(name, table.ToToml());
  }
  for (const Config& layer : task.network.Tables("layer")) toml += "\n[[network.layer]]\n" + layer.ToToml() + "\n";
  return toml;
}

Config WithWorkers(const Config& parallel, int workers) {
  if (parallel.Int("workers").value_or(1) == workers) return parallel;
  Config changed = Config::Parse(parallel.ToToml(), "parallel");
  changed.Set("workers", std::to_string(workers));
  return changed;
}

TrainingReport RunTraining(TrainingRequest request, const TrainingHost& host) {
  PrepareRequest(request);
  TrainingTask task = ReadTaskTogether(request, host);
  std::string config = EffectiveConfig(request, task);
  task.on_metrics =
      ListenerTo(request.log_to, task.folder, Config::Parse(config, "(training)"), std::move(task.on_metrics));
  task.on_folder_taken = [&] {
    WriteFileAtomically(task.folder / "config.toml", config);
    if (host.versions) WriteFileAtomically(task.folder / "versions.txt", host.versions());
  };
  // From then on the folder does not hold an earlier run that this one is to replace.
  std::atomic<bool> begun = false;
  bool after_loss = false;
  task.on_begun = [&] { begun = true; };
  if (host.takes_over) task.on_taking_over = host.takes_over;
  TrainingReport report;
  // Before a change that has not begun yet.
  std::optional<Config> parallel_before;
  const auto go_on_with = [&](const Config& parallel) {
    request.parallel = task.parallel = parallel;
    config = EffectiveConfig(request, task);
  };
  for (;;) {
    const bool goes_on = request.resume || begun;
    const auto run = [&](comm::Communicator& comm) {
      // Of the processes that are left, some may not have got that far.
      const bool resume = after_loss ? SumOfAll(comm, {goes_on ? 1.0 : 0.0})[0] > 0 : goes_on;
      Trainer trainer(task, request.train, comm);
      const TrainingSummary mine = trainer.Run(resume);
      if (trainer.is_first()) report.summary = mine;
    };
    try {
      report.simulation = RunWorkers(task.parallel, request.cluster, host.threads(), host.group, run);
      return report;
    } catch (const WorkersChanged& e) {
      parallel_before = task.parallel;
      go_on_with(WithWorkers(task.parallel, e.workers()));
      task.note.clear();
      log::Info("{}", e.what());
    } catch (const UsageError& e) {
      if (!parallel_before) throw;
      log::Warn("the request for another number of workers is not met: {}", e.what());
      if (host.group.process() == 0) RemoveRequest(task.folder);
      go_on_with(*std::exchange(parallel_before, std::nullopt));
    } catch (const comm::PeerLost& e) {
      const int lost = host.group.LeaveOutLostProcesses();
      if (lost == 0) throw;  // a rank of a simulated cluster: it would be lost again
      task.note =
          fmt::format("{} process(es) died; the {} that are left carry all workers on, from the last checkpoint", lost,
                      host.group.num_processes());
      task.after_loss = after_loss = true;
      if (host.processes_lost) host.processes_lost();
      log::Warn("{} ({})", task.note, e.what());
    } catch (DivergenceError& e) {
      if (request.train.side.any()) e.AddContext(StrengthOf(request.train.side));
      throw;
    }
  }
}

}  // namespace antiphon::train
