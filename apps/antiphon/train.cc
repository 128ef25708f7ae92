// antiphon train: a network from a frame store; also evaluates one on a store.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/toml_text.h"
#include "command.h"
#include "data/feature_kind.h"
#include "hmm/gmm_model.h"
#include "math/safetensors.h"
#include "processes.h"
#include "same_place.h"
#include "supervise.h"
#include "train/evaluate.h"
#include "train/further.h"
#include "train/side_speech.h"
#include "train/trainer.h"
#include "train/world.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct TrainCommandOptions {
  std::string store;
  std::string out;
  std::string held_out_store;
  std::string hmm;
  std::string front_end;
  std::string speaker_model;
  std::string network_file;
  std::string initial_model;
  std::string evaluate;
  bool resume = false;
  bool anew_if_changed = false;
  std::string note;
  SuperviseOptions supervise;
  train::TrainOptions train;

  template <class V>
  void Visit(V& v) {
    v("store", store, "frame store to train on (antiphon store makes one)");
    v("out", out,
      "run folder: model.safetensors, checkpoint/, metrics.jsonl, report.html, config.toml, TensorBoard events");
    v("held-out-store", held_out_store, "frame store to evaluate on; empty: speakers are held out of --store");
    v("hmm", hmm, "model whose phones and states the pdf-ids belong to: HMM description (JSON), GMM or network file");
    v("front-end", front_end,
      "TOML file with the features' options (antiphon features leaves one), kept in the model; empty: what the store "
      "says of its features");
    v("speaker-model", speaker_model,
      "GMM model whose speaker-adapted features the store holds, kept in the model for new speakers");
    v("network-file", network_file, "TOML file with the [[layer]] tables, instead of the table `network`");
    v("initial-model", initial_model,
      "model file whose network goes on learning, instead of a new one; its context, heads, HMM and features are kept");
    v("evaluate", evaluate, "model file: print its frame and phone accuracy on --store and train nothing");
    v("resume", resume, "go on from the newest checkpoint in --out, bit-identically; starts anew if there is none");
    v("anew-if-changed", anew_if_changed,
      "with --resume: start anew, with a warning, if the checkpoint belongs to another experiment; otherwise refuse");
    v("note", note, "sentence about this start, for log, metrics and report");
    supervise.Visit(v);
    train.Visit(v);
  }
};

std::optional<hmm::HmmModel> ReadHmm(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return WithContext(
      [&]() -> std::optional<hmm::HmmModel> {
        if (fs::path(path).extension() != ".safetensors") return hmm::HmmModel::FromJson(ReadFile(path));
        const std::string json = SafetensorsReader(path).Metadata("hmm");
        return json.empty() ? std::nullopt : std::optional(hmm::HmmModel::FromJson(json));
      },
      [&] { return fmt::format("reading the HMM of '{}'", path); });
}

std::vector<std::byte> ReadSpeakerModel(const TrainCommandOptions& options, const train::TrainingTask& task) {
  const hmm::GmmModel model = hmm::GmmModel::Load(options.speaker_model);
  if (model.transform.out_dim() != task.store->feat_dim()) {
    Throw<InputError>("the store '{}' has {} features per frame, but those of the speaker model '{}' have {}",
                      options.store, task.store->feat_dim(), options.speaker_model, model.transform.out_dim());
  }
  const MappedFile file(options.speaker_model);
  return {file.bytes().begin(), file.bytes().end()};
}

Config NetworkConfig(const TrainCommandOptions& options, const CommandContext& context) {
  if (!options.initial_model.empty()) {
    if (!options.network_file.empty() || context.config().Has("network")) {
      throw UsageError("the network comes from --initial-model: leave out --network-file and the table `network`");
    }
    return Config();
  }
  if (options.network_file.empty()) {
    if (!context.config().Has("network")) {
      throw UsageError("no network: give [[network.layer]] tables in --config, or --network-file FILE");
    }
    return context.config().Table("network");
  }
  if (context.config().Has("network"))
    throw UsageError("both `network` tables and --network-file: leave one of them out");
  return Config::Load(options.network_file);
}

// The run folder's config.toml: a file that runs the same training again with --config.
std::string EffectiveConfig(const TrainCommandOptions& options, const train::TrainingTask& task,
                            const CommandContext& context) {
  Config config = OptionsToConfig(options);
  config.Set("resume", "false");
  config.Set("note", "\"\"");
  config.Set("network-file", "\"\"");
  config.Set("seed", std::to_string(context.seed()));
  config.Set("threads", std::to_string(context.config().Int("threads").value_or(0)));
  std::string toml = config.ToToml();
  for (const auto& [name, table] : {std::pair("optimizer", task.optimizer), std::pair("parallel", task.parallel),
                                    std::pair("cluster", context.config().Table("cluster"))}) {
    if (!table.Keys().empty()) toml += "\n" + TomlAsTable(name, table.ToToml());
  }
  for (const Config& layer : task.network.Tables("layer")) toml += "\n[[network.layer]]\n" + layer.ToToml() + "\n";
  return toml;
}

void PrintEvaluation(const train::EvaluationResult& result, CommandContext& context) {
  context.Print("frame accuracy {:.2f} %, loss {:.4f} nats per frame, {:.0f} frames",
                100 * result.loss.frame_accuracy(), result.loss.loss(), result.loss.weight_sum);
  nlohmann::json json = {{"frame_accuracy", result.loss.frame_accuracy()},
                         {"loss", result.loss.loss()},
                         {"frames", result.loss.weight_sum}};
  if (!result.confusion.names.empty()) {
    context.Print("phone accuracy {:.2f} % of frames", 100 * result.confusion.accuracy());
    json["phone_accuracy"] = result.confusion.accuracy();
  }
  context.SetResult(json.dump());
}

// What the doctor says of program, libraries and machine.
std::string Versions() {
  std::ostringstream text;
  RunCommand("doctor", Config(), text);
  return text.str();
}

void EvaluateModel(const TrainCommandOptions& options, CommandContext& context) {
  const nn::Model model = nn::Model::Load(options.evaluate);
  train::EvaluationData data;
  data.store = std::make_shared<const data::FrameStore>(options.store);
  data.context = {model.left_context, model.right_context};
  data.heads = {model.frames_per_forward, model.first_frame_offset};
  if (data.store->feat_dim() != model.feature_dim || data.store->num_pdfs() > model.num_pdfs()) {
    Throw<InputError>("the store '{}' has {} features and {} pdf-ids, the model '{}' takes {} and {}", options.store,
                      data.store->feat_dim(), data.store->num_pdfs(), options.evaluate, model.feature_dim,
                      model.num_pdfs());
  }
  data::RequireKind(*data.store, train::KindTakenBy(model), fmt::format("'{}'", options.evaluate));
  train::EvaluationRequest request;
  std::optional<train::PhoneMap> phones;
  if (!model.hmm_json.empty()) phones.emplace(hmm::HmmModel::FromJson(model.hmm_json));
  if (phones) request.phones = &*phones;
  nn::Workspace workspace;
  PrintEvaluation(train::Evaluate(model.network, data, workspace, request), context);
}

nlohmann::json ToJson(const train::TrainingSummary& s) {
  nlohmann::json json = {{"epochs", s.epochs},
                         {"steps", s.steps},
                         {"frames", s.frames},
                         {"held_out_loss", s.held_out_loss},
                         {"held_out_accuracy", s.held_out_accuracy},
                         {"phone_accuracy", s.phone_accuracy},
                         {"seconds", s.seconds},
                         {"frames_per_second", s.frames_per_second},
                         {"arithmetic_share", s.arithmetic_share},
                         {"virtual_seconds", s.virtual_seconds},
                         {"bytes_sent", s.bytes_sent},
                         {"lost_workers", s.lost_workers},
                         {"minibatches_given_back", s.given_back},
                         {"averaged", s.averaged},
                         {"model_hash", fmt::format("{:016x}", s.model_hash)}};
  if (s.side_probe.kinds > 0) {
    json["side_layer"] = s.side_layer;
    json["side_probe_kinds"] = s.side_probe.kinds;
    json["side_probe_accuracy"] = s.side_probe.accuracy;
  } else if (!s.side_probe.missing.empty()) {
    json["side_probe_missing"] = s.side_probe.missing;
  }
  return json;
}

void PrintSimulation(const comm::SimulationReport& report, CommandContext& context) {
  double compute = 0;
  double all = 0;
  for (const comm::RankUsage& rank : report.ranks) {
    compute += rank.compute_seconds;
    all += rank.end_seconds;
  }
  context.Print(
      "simulated cluster: {:.6g} s of virtual time on {} rank(s), {:.1f} % of it arithmetic; {:.6g} MB in messages",
      report.seconds(), report.ranks.size(), all > 0 ? 100 * compute / all : 100.0, 1e-6 * report.bytes_sent());
}

train::TrainingTask ReadTask(const TrainCommandOptions& options, const CommandContext& context) {
  train::TrainingTask task;
  if (!options.initial_model.empty()) {
    task = train::TaskFrom(std::make_shared<const nn::Model>(nn::Model::Load(options.initial_model)));
  }
  task.teachers = train::LoadTeachers(options.train.teacher);
  const bool all_shards = options.train.data.distribution != "shards";
  auto store = std::make_shared<data::FrameStore>(options.store, all_shards);
  if (const data::ShardCacheOptions& cache = options.train.data.cache; !cache.cache_dir.empty()) {
    store->UseCache(cache.cache_dir, static_cast<uint64_t>(1e9 * cache.cache_limit_gb));
  }
  task.store = std::move(store);
  if (!options.held_out_store.empty())
    task.held_out_store = std::make_shared<const data::FrameStore>(options.held_out_store);
  task.folder = options.out;
  task.network = NetworkConfig(options, context);
  task.optimizer = context.config().Table("optimizer");
  task.parallel = context.config().Table("parallel");
  if (!options.hmm.empty()) task.hmm = ReadHmm(options.hmm);
  if (task.feature_config.empty() || !options.front_end.empty()) {
    task.feature_config = data::FrontEndFor(*task.store, options.front_end, !options.speaker_model.empty());
  }
  if (!options.speaker_model.empty()) task.speaker_model = ReadSpeakerModel(options, task);
  task.seed = context.seed();
  task.anew_if_changed = options.anew_if_changed;
  task.note = options.note;
  task.resume_hint = fmt::format("antiphon train --config {} --resume", (task.folder / "config.toml").string());
  return task;
}

train::TrainingTask ReadTaskAndTell(const TrainCommandOptions& options, CommandContext& context, bool tell) {
  train::TrainingTask task = ReadTask(options, context);
  if (!tell) return task;
  WriteFileAtomically(task.folder / "config.toml", EffectiveConfig(options, task, context));
  WriteFileAtomically(task.folder / "versions.txt", Versions());
  return task;
}

// Reads in every process, so that what one cannot read ends all with its reason.
train::TrainingTask ReadTaskTogether(comm::ProcessGroup& group, const TrainCommandOptions& options,
                                     CommandContext& context) {
  if (group.num_processes() == 1) return ReadTaskAndTell(options, context, true);
  std::optional<train::TrainingTask> task;
  group.RunRanks(group.num_processes(), [&](comm::Communicator& comm) {
    WithContext([&] { task = ReadTaskAndTell(options, context, comm.rank() == 0); },
                [&] { return fmt::format("process {} of {}", comm.rank(), comm.world_size()); });
    comm.Barrier();
  });
  return std::move(*task);
}

struct Trained {
  train::TrainingSummary summary;
  std::optional<comm::SimulationReport> simulation;
};

// What a training that diverged may have too much of.
std::string StrengthOf(const adapt::SideTaskOptions& side) {
  std::string text = fmt::format("with a side task of side.weight {}", side.weight);
  if (side.adversarial) text += fmt::format(" and side.most {}", side.most);
  return text + ", to be lowered first";
}

Trained TrainInGroup(comm::ProcessGroup& group, const TrainCommandOptions& options, CommandContext& context) {
  train::TrainingTask task = ReadTaskTogether(group, options, context);
  Trained trained;
  for (bool resume = options.resume;; resume = true) {
    const auto run = [&](comm::Communicator& comm) {
      train::Trainer trainer(task, options.train, comm);
      const train::TrainingSummary mine = trainer.Run(resume);
      if (comm.rank() == 0) trained.summary = mine;
    };
    try {
      trained.simulation = train::RunWorkers(task.parallel, context.config().Table("cluster"),
                                             ThreadsOfProcess(group, context), group, run);
      return trained;
    } catch (const comm::PeerLost& e) {
      const int lost = group.LeaveOutLostProcesses();
      task.note =
          fmt::format("{} process(es) died; the {} that are left carry all workers on, from the last checkpoint", lost,
                      group.num_processes());
      SpeakAsProcess(group.process(), context);
      log::Warn("{} ({})", task.note, e.what());
    } catch (DivergenceError& e) {
      if (options.train.side.any()) e.AddContext(StrengthOf(options.train.side));
      throw;
    }
  }
}

void PrintSummary(const nlohmann::json& summary, CommandContext& context) {
  context.Print(
      "held-out frame accuracy {:.2f} %, loss {:.4f}{}; {:.0f} frames/s, {:.1f} % of the steps' time arithmetic",
      100 * summary.value("held_out_accuracy", 0.0), summary.value("held_out_loss", 0.0),
      summary.value("averaged", false) ? " (averaged model)" : "", summary.value("frames_per_second", 0.0),
      100 * summary.value("arithmetic_share", 0.0));
  if (summary.contains("side_probe_kinds")) {
    context.Print("side task: a fresh classifier is right in {:.1f} % of frames by '{}' (a guess among {}: {:.1f} %)",
                  100 * summary.value("side_probe_accuracy", 0.0), summary.value("side_layer", std::string()),
                  summary.value("side_probe_kinds", 0), 100.0 / summary.value("side_probe_kinds", 1));
  } else if (summary.contains("side_probe_missing")) {
    context.Print("side task: no fresh classifier, as {}", summary.value("side_probe_missing", std::string()));
  }
  if (const int64_t lost = summary.value("lost_workers", int64_t{0}); lost > 0) {
    context.Print(
        "{} worker(s) were lost on the way (metrics.jsonl and report.html say when); {} minibatch(es) of theirs went "
        "to the others",
        lost, summary.value("minibatches_given_back", int64_t{0}));
  }
}

void PrintFiles(const fs::path& folder, CommandContext& context) {
  context.Print("model: {}", train::ModelFile(folder).string());
  context.Print("report: {}", (folder / "report.html").string());
}

void Supervise(const TrainCommandOptions& options, CommandContext& context) {
  if (comm::LaunchedProcesses() > 1) {
    throw UsageError(
        "--restarts and --launch are for the process outside: instead of 'mpirun -np 4 antiphon train …' start "
        "'antiphon train … --launch \"mpirun -np 4\"'");
  }
  const fs::path config = fs::path(options.out) / "config.toml";
  const std::string toml = EffectiveConfig(options, ReadTask(options, context), context);
  WriteFileAtomically(config, toml);
  const auto summary = nlohmann::json::parse(SuperviseTraining(config, options.resume, options.supervise));
  WriteFileAtomically(config, toml);  // the run itself was told not to restart
  PrintSummary(summary, context);
  PrintFiles(options.out, context);
  context.SetResult(summary.dump());
}

// A run begins by removing the model of an earlier one.
void RequireOtherModels(const TrainCommandOptions& options) {
  std::vector<std::string> read = options.train.teacher.models;
  read.insert(read.end(), {options.initial_model, options.hmm, options.speaker_model});
  for (const std::string& file : read) RequireOtherPlace(file, train::ModelFile(options.out), "this model");
}

void Train(TrainCommandOptions options, CommandContext& context) {
  if (!options.evaluate.empty()) return EvaluateModel(options, context);
  if (!options.initial_model.empty()) train::TakeShape(nn::Model::Load(options.initial_model), options.train);
  if (options.out.empty()) throw UsageError("--out is missing: the folder of the run");
  RequireOtherModels(options);
  train::CheckSideTask(options.train.side);
  if (options.supervise.restarts > 0 || !options.supervise.launch.empty()) return Supervise(options, context);
  comm::ProcessGroup& group = Processes();
  SpeakAsProcess(group.process(), context);
  if (group.num_processes() > 1) log::Info("{}", group.Describe());
  const Trained trained = TrainInGroup(group, options, context);
  const nlohmann::json summary = ToJson(trained.summary);
  PrintSummary(summary, context);
  if (trained.simulation) PrintSimulation(*trained.simulation, context);
  PrintFiles(options.out, context);
  context.SetResult(summary.dump());
}

}  // namespace

REGISTER_COMMAND(
    "train", TrainCommandOptions, Train,
    {.summary = "train a network on aligned frames",
     .description =
         "Ctrl-C saves everything and says how to go on; --resume goes on bit-identically, also after a crash. The "
         "table `optimizer` (type, momentum, …) and the table `parallel` (method, workers, world, …) choose how it "
         "learns; with parallel.world = \"simulated\", the table `cluster` (host, links) describes the machines.",
     .example =
         "antiphon train --config recipes/train.toml --store exp/store --hmm exp/tri/final.safetensors --out exp/dnn\n"
         "antiphon train --config exp/dnn/config.toml --resume\n"
         "antiphon train --config recipes/train.toml --set parallel.workers=8 --launch 'mpirun -np 4' --restarts 3\n"
         "antiphon train --evaluate exp/dnn/model.safetensors --store exp/test_store",
     .required = {"store"},
     .tables = {"network", "optimizer", "parallel", "cluster"}});

}  // namespace antiphon::app
