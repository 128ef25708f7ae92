// antiphon train: a network from a frame store; also evaluates one on a store.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "command.h"
#include "data/feature_kind.h"
#include "processes.h"
#include "supervise.h"
#include "train/evaluate.h"
#include "train/trainer.h"
#include "train/training_request.h"
#include "train/warm_start.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct TrainCommandOptions {
  std::string evaluate;
  SuperviseOptions supervise;
  train::TrainingRequest request;

  // Inline, gcc 12 takes a string deep inside for one that is destroyed before it is made, and warns.
  [[gnu::noinline]] TrainCommandOptions() {}  // NOLINT(modernize-use-equals-default)

  template <class V>
  void Visit(V& v) {
    request.Visit(v);
    VisitOwn(v);
  }
  /// What is this command's alone.
  template <class V>
  void VisitOwn(V& v) {
    v("evaluate", evaluate, "model file: print its frame and phone accuracy on --store and train nothing");
    supervise.Visit(v);
  }
};

// For config.toml.
struct OwnOptions {
  TrainCommandOptions all;
  template <class V>
  void Visit(V& v) {
    all.VisitOwn(v);
  }
};

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
  data.store = std::make_shared<const data::FrameStore>(options.request.store);
  data.context = {model.left_context, model.right_context};
  data.heads = {model.frames_per_forward, model.first_frame_offset};
  if (data.store->feat_dim() != model.feature_dim || data.store->num_pdfs() > model.num_pdfs()) {
    Throw<InputError>("the store '{}' has {} features and {} pdf-ids, the model '{}' takes {} and {}",
                      options.request.store, data.store->feat_dim(), data.store->num_pdfs(), options.evaluate,
                      model.feature_dim, model.num_pdfs());
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

// Everything that the library is asked for.
train::TrainingRequest RequestOf(const TrainCommandOptions& options, const CommandContext& context) {
  train::TrainingRequest request = options.request;
  train::TakeTables(context.config(), request);
  request.seed = context.seed();
  request.threads = context.config().Int("threads").value_or(0);
  request.of_caller = OptionsToConfig(OwnOptions{options});
  request.resume_hint =
      fmt::format("antiphon train --config {} --resume", (fs::path(request.out) / "config.toml").string());
  return request;
}

void Supervise(const SuperviseOptions& options, train::TrainingRequest request, CommandContext& context) {
  if (comm::LaunchedProcesses() > 1) {
    throw UsageError(
        "--restarts and --launch are for the process outside: instead of 'mpirun -np 4 antiphon train …' start "
        "'antiphon train … --launch \"mpirun -np 4\"'");
  }
  train::PrepareRequest(request);
  const fs::path config = fs::path(request.out) / "config.toml";
  const std::string toml = train::EffectiveConfig(request, train::ReadTask(request));
  WriteFileAtomically(config, toml);
  const auto summary = nlohmann::json::parse(SuperviseTraining(config, request.resume, options));
  WriteFileAtomically(config, toml);  // the run itself was told not to restart
  PrintSummary(summary, context);
  PrintFiles(request.out, context);
  context.SetResult(summary.dump());
}

void Train(const TrainCommandOptions& options, CommandContext& context) {
  if (!options.evaluate.empty()) return EvaluateModel(options, context);
  const train::TrainingRequest request = RequestOf(options, context);
  if (options.supervise.restarts > 0 || !options.supervise.launch.empty()) {
    return Supervise(options.supervise, request, context);
  }
  comm::ProcessGroup& group = Processes();
  SpeakAsProcess(group.process(), context);
  if (group.num_processes() > 1) log::Info("{}", group.Describe());
  const train::TrainingReport report =
      train::RunTraining(request, {.group = group,
                                   .threads = [&] { return ThreadsOfProcess(group, context); },
                                   .processes_lost = [&] { SpeakAsProcess(group.process(), context); },
                                   .versions = Versions});
  const nlohmann::json summary = ToJson(report.summary);
  PrintSummary(summary, context);
  if (report.simulation) PrintSimulation(*report.simulation, context);
  PrintFiles(request.out, context);
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
     .example = "antiphon train --config docs/examples/train.toml --store exp/store --hmm exp/align/model.safetensors "
                "--out exp/dnn\n"
                "antiphon train --config exp/dnn/config.toml --resume\n"
                "antiphon train --config docs/examples/train.toml --store exp/store --out exp/dnn --set "
                "parallel.workers=8 --launch 'mpirun -np 4' --restarts 3\n"
                "antiphon train --evaluate exp/dnn/model.safetensors --store exp/test_store",
     .required = {"store"},
     .tables = {"network", "optimizer", "parallel", "cluster"},
     .common = {"out",
                "hmm",
                "front-end",
                "held-out-store",
                "initial-model",
                "network-file",
                "resume",
                "evaluate",
                "precision",
                "data.minibatch",
                "data.left-context",
                "data.right-context",
                "schedule.type",
                "schedule.epochs",
                "schedule.learning-rate",
                "schedule.final-learning-rate",
                "held-out.by",
                "held-out.fraction",
                "checkpoint.minutes",
                "loss",
                "launch",
                "restarts"}});

}  // namespace antiphon::app
