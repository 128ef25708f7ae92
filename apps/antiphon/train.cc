// antiphon train: a network from a frame store; also evaluates one on a store.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/loss_text.h"
#include "command.h"
#include "data/feature_kind.h"
#include "pipeline/bundle.h"
#include "pipeline/training_job.h"
#include "train/evaluate.h"
#include "train/trainer.h"
#include "train/warm_start.h"
#include "training_run.h"

namespace antiphon::app {
namespace {

struct TrainCommandOptions {
  std::string evaluate;
  pipeline::TrainingJob job;

  // Inline, gcc 12 takes a string deep inside for one that is destroyed before it is made, and warns.
  [[gnu::noinline]] TrainCommandOptions() {}  // NOLINT(modernize-use-equals-default)

  template <class V>
  void Visit(V& v) {
    job.request.Visit(v);
    v("evaluate", evaluate, "model file: print its frame and phone accuracy on --store and train nothing");
    job.supervise.Visit(v);
  }
};

void PrintEvaluation(const train::EvaluationResult& result, CommandContext& context) {
  context.Print("frame accuracy {:.2f} %, loss {} nats per frame, {:.0f} frames", 100 * result.loss.frame_accuracy(),
                LossText(result.loss.loss()), result.loss.weight_sum);
  nlohmann::json json = {{"frame_accuracy", result.loss.frame_accuracy()},
                         {"loss", result.loss.loss()},
                         {"frames", result.loss.weight_sum}};
  if (!result.confusion.names.empty()) {
    context.Print("phone accuracy {:.2f} % of frames", 100 * result.confusion.accuracy());
    json["phone_accuracy"] = result.confusion.accuracy();
  }
  context.SetResult(json.dump());
}

void EvaluateModel(const TrainCommandOptions& options, CommandContext& context) {
  const nn::Model model = nn::Model::Load(pipeline::PartsAt(options.evaluate).model);
  train::EvaluationData data;
  data::FrameStoreAccess access;
  access.cache = options.job.request.train.data.cache;
  data.store = std::make_shared<const data::FrameStore>(options.job.request.store, access);
  data.context = {model.left_context, model.right_context};
  data.heads = {model.frames_per_forward, model.first_frame_offset};
  if (data.store->feat_dim() != model.feature_dim || data.store->num_pdfs() > model.num_pdfs()) {
    Throw<InputError>("the store '{}' has {} features and {} pdf-ids, the model '{}' takes {} and {}",
                      options.job.request.store, data.store->feat_dim(), data.store->num_pdfs(), options.evaluate,
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

void Train(const TrainCommandOptions& options, CommandContext& context) {
  if (!options.evaluate.empty()) return EvaluateModel(options, context);
  pipeline::TrainingJob job = options.job;
  train::TakeTables(context.config(), job.request);
  job.request.seed = context.seed();
  job.request.threads = context.config().Int("threads").value_or(0);
  context.SetResult(RunTrainingJob(job, context));
}

}  // namespace

REGISTER_COMMAND(
    "train", TrainCommandOptions, Train,
    {.summary = "train a network on aligned frames",
     .description =
         "The file of --config describes the network, a table `network.layer` for each layer, and may hold all other "
         "options. Ctrl-C saves everything and says how to go on; --resume goes on bit-identically, also after a "
         "crash. The table `optimizer` (type, momentum, …) and the table `parallel` (method, workers, world, …) choose "
         "how it "
         "learns; with parallel.world = \"simulated\", the table `cluster` (host, links) describes the machines.",
     .example = "antiphon train --config run.toml --store exp/store --hmm exp/align/model.safetensors --out exp/dnn\n"
                "antiphon train --config exp/dnn/config.toml --resume\n"
                "antiphon train --config run.toml --store exp/store --out exp/dnn --set "
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
                "launch",
                "restarts"}});

}  // namespace antiphon::app
