// antiphon train: a network from a frame store; also evaluates one on a store.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/toml_text.h"
#include "command.h"
#include "feat/front_end.h"
#include "hmm/gmm_model.h"
#include "math/safetensors.h"
#include "train/evaluate.h"
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
  std::string evaluate;
  bool resume = false;
  bool anew_if_changed = false;
  train::TrainOptions train;

  template <class V>
  void Visit(V& v) {
    v("store", store, "frame store to train on (antiphon store makes one)");
    v("out", out,
      "run folder: model.safetensors, checkpoint/, metrics.jsonl, report.html, config.toml, TensorBoard events");
    v("held-out-store", held_out_store, "frame store to evaluate on; empty: speakers are held out of --store");
    v("hmm", hmm, "model whose phones and states the pdf-ids belong to: HMM description (JSON), GMM or network file");
    v("front-end", front_end, "TOML file with the features' options (antiphon features leaves one), kept in the model");
    v("speaker-model", speaker_model,
      "GMM model whose speaker-adapted features the store holds, kept in the model for new speakers");
    v("network-file", network_file, "TOML file with the [[layer]] tables, instead of the table `network`");
    v("evaluate", evaluate, "model file: print its frame and phone accuracy on --store and train nothing");
    v("resume", resume, "go on from the newest checkpoint in --out, bit-identically; starts anew if there is none");
    v("anew-if-changed", anew_if_changed,
      "with --resume: start anew, with a warning, if the checkpoint belongs to another experiment; otherwise refuse");
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
  config.Set("network-file", "\"\"");
  config.Set("seed", std::to_string(context.seed()));
  config.Set("threads", std::to_string(context.threads()));
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
  if (data.store->feat_dim() != model.feature_dim || data.store->num_pdfs() > model.network.out_dim()) {
    Throw<InputError>("the store '{}' has {} features and {} pdf-ids, the model '{}' takes {} and {}", options.store,
                      data.store->feat_dim(), data.store->num_pdfs(), options.evaluate, model.feature_dim,
                      model.network.out_dim());
  }
  train::EvaluationRequest request;
  std::optional<train::PhoneMap> phones;
  if (!model.hmm_json.empty()) phones.emplace(hmm::HmmModel::FromJson(model.hmm_json));
  if (phones) request.phones = &*phones;
  nn::Workspace workspace;
  PrintEvaluation(train::Evaluate(model.network, data, workspace, request), context);
}

nlohmann::json ToJson(const train::TrainingSummary& s) {
  return {{"epochs", s.epochs},
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
          {"averaged", s.averaged},
          {"model_hash", fmt::format("{:016x}", s.model_hash)}};
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

// The text of front_end.toml, which must describe features like the store's unless a speaker model stands between them.
std::string FrontEndFor(const data::FrameStore& store, const TrainCommandOptions& options) {
  const feat::FrontEnd front_end(ReadOptions<feat::FrontEndOptions>(Config::Load(options.front_end)));
  if (options.speaker_model.empty() && front_end.dim() != store.feat_dim()) {
    Throw<InputError>("'{}' describes features of {} dimensions, but those in '{}' have {}: it belongs to others",
                      options.front_end, front_end.dim(), store.folder().string(), store.feat_dim());
  }
  return ReadFile(options.front_end);
}

void Train(const TrainCommandOptions& options, CommandContext& context) {
  if (!options.evaluate.empty()) return EvaluateModel(options, context);
  if (options.out.empty()) throw UsageError("--out is missing: the folder of the run");
  train::TrainingTask task;
  task.store = std::make_shared<const data::FrameStore>(options.store);
  if (!options.held_out_store.empty())
    task.held_out_store = std::make_shared<const data::FrameStore>(options.held_out_store);
  task.folder = options.out;
  task.network = NetworkConfig(options, context);
  task.optimizer = context.config().Table("optimizer");
  task.parallel = context.config().Table("parallel");
  task.hmm = ReadHmm(options.hmm);
  if (!options.front_end.empty()) task.feature_config = FrontEndFor(*task.store, options);
  if (!options.speaker_model.empty()) task.speaker_model = ReadSpeakerModel(options, task);
  task.seed = context.seed();
  task.anew_if_changed = options.anew_if_changed;
  task.resume_hint = fmt::format("antiphon train --config {} --resume", (task.folder / "config.toml").string());
  WriteFileAtomically(task.folder / "config.toml", EffectiveConfig(options, task, context));
  WriteFileAtomically(task.folder / "versions.txt", Versions());

  train::TrainingSummary summary;
  const auto run = [&](comm::Communicator& comm) {
    train::Trainer trainer(task, options.train, comm);
    const train::TrainingSummary mine = trainer.Run(options.resume);
    if (comm.rank() == 0) summary = mine;
  };
  const auto simulation = train::RunWorkers(task.parallel, context.config().Table("cluster"), context.threads(), run);
  context.Print(
      "held-out frame accuracy {:.2f} %, loss {:.4f}{}; {:.0f} frames/s, {:.1f} % of the steps' time arithmetic",
      100 * summary.held_out_accuracy, summary.held_out_loss, summary.averaged ? " (averaged model)" : "",
      summary.frames_per_second, 100 * summary.arithmetic_share);
  if (simulation) PrintSimulation(*simulation, context);
  context.Print("model: {}", train::ModelFile(task.folder).string());
  context.Print("report: {}", (task.folder / "report.html").string());
  context.SetResult(ToJson(summary).dump());
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
         "antiphon train --evaluate exp/dnn/model.safetensors --store exp/test_store",
     .required = {"store"},
     .tables = {"network", "optimizer", "parallel", "cluster"}});

}  // namespace antiphon::app
