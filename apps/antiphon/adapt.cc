// antiphon adapt: a model made good on other speech, without forgetting what it knew.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/folder_lock.h"
#include "base/log.h"
#include "base/loss_text.h"
#include "base/same_place.h"
#include "command.h"
#include "hmm/hmm_file.h"
#include "pipeline/adaptation_speech.h"
#include "pipeline/bundle.h"
#include "pipeline/compress_request.h"
#include "pipeline/method_tables.h"
#include "pipeline/model_measure.h"
#include "processes.h"
#include "report/text_table.h"
#include "train/adaptation.h"
#include "train/warm_start.h"

namespace antiphon::app {
namespace {

namespace fs = std::filesystem;

struct AdaptCommandOptions {
  std::string model;
  std::string method = "kld";
  std::string out;
  std::string store;
  std::string held_out_store;
  std::string old_store;
  std::string hmm;
  pipeline::AdaptSpeechOptions speech;
  train::AdaptationOptions adaptation;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file to adapt, or what antiphon bundle made, whose graph, weights and lexicon count then");
    v("method", method, "how: the table of that name holds its options; 'list' names all");
    v("out", out, "folder: model.safetensors (adapted, or as it was if nothing is gained), adaptation.json");
    v("store", store, "frame store with the aligned speech to adapt to, instead of --data");
    v("held-out-store", held_out_store, "frame store to measure on; empty: utterances are held out of the speech");
    v("old-store", old_store, "frame store that the model was trained on, to see what it forgets");
    v("hmm", hmm, "model whose phones and states the pdf-ids of --store belong to, if not the model's own");
    speech.Visit(v);
    adaptation.Visit(v);
  }
};

constexpr char kLock[] = ".adaptation.lock";

// Whether what an earlier adaptation left there may be made anew; an experiment's folder has things of those names too.
void RequireOwnFolder(const fs::path& out) {
  if (fs::exists(out / kLock)) return;
  for (const char* made : {"features", "align", "store", "decode", "train"}) {
    if (!fs::exists(out / made)) continue;
    Throw<UsageError>("'{}' is no folder of an adaptation, and its '{}' would be overwritten: give another with --out",
                      out.string(), made);
  }
}

// What the command reads lies nowhere where it writes.
void RequireInputsOutside(const AdaptCommandOptions& options) {
  const fs::path out(options.out);
  const pipeline::AdaptSpeechOptions& speech = options.speech;
  const std::string model_file = pipeline::PartsAt(options.model).model;
  const std::string hmm_file = options.hmm.empty() ? "" : pipeline::PartsAt(options.hmm).model;
  for (const std::string& model : {model_file, hmm_file}) {
    for (const char* made : {"model.safetensors", "adapted.safetensors"}) {
      RequireOtherPlace(model, out / made, "this model");
    }
  }
  std::vector<fs::path> written = {out / "old-decode"};
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(out, none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("train") || name.starts_with("rho-")) written.push_back(entry.path());
  }
  if (!speech.data.empty()) {
    for (const char* made : {"features", "speech", "decode", "align", "chain", "store"}) written.push_back(out / made);
  }
  for (const std::string& read :
       {model_file, hmm_file, options.store, options.held_out_store, options.old_store, speech.data,
        speech.features.features, speech.lexicon, speech.graph, speech.chain_data}) {
    for (const fs::path& folder : written) RequireOutside(read, folder);
  }
}

// What makes a store of speech says nothing where the store is given.
void RefuseIdleOptions(const pipeline::AdaptSpeechOptions& speech) {
  const std::pair<const char*, bool> given[] = {
      {"--unsupervised", speech.unsupervised}, {"--speaker", !speech.speaker.empty()},
      {"--lexicon", !speech.lexicon.empty()},  {"--graph", !speech.graph.empty()},
      {"--weights", !speech.weights.empty()},  {"--features", !speech.features.features.empty()},
  };
  for (const auto& [name, is_given] : given) {
    if (is_given) {
      Throw<UsageError>(
          "{} is about speech that is still to be aligned (--data); the store holds what it holds: leave "
          "it out, or give --data instead of --store",
          name);
    }
  }
}

void CheckFolders(const AdaptCommandOptions& options) {
  if (options.out.empty()) throw UsageError("--out is missing: the folder for the adapted model");
  if (options.store.empty() && options.speech.data.empty()) {
    throw UsageError("give the speech to adapt to: a data directory (--data), or a frame store (--store)");
  }
  if (!options.store.empty() && !options.speech.data.empty()) {
    throw UsageError("the speech to adapt to is given twice: leave out either --data or --store");
  }
  if (!options.store.empty()) RefuseIdleOptions(options.speech);
  RequireInputsOutside(options);
  RequireOwnFolder(options.out);
}

std::vector<std::string> Row(const std::string& speech, const train::DomainMeasures& before,
                             const train::DomainMeasures& after) {
  const auto figures = [](const train::DomainMeasures& m) {
    return m.frames > 0 ? fmt::format("{:.2f} %  {}", 100 * m.frame_accuracy, LossText(m.loss)) : std::string("-");
  };
  return {speech, fmt::format("{:.0f}", std::max(before.frames, after.frames)), figures(before), figures(after)};
}

void Print(const train::AdaptationResult& result, CommandContext& context) {
  for (const adapt::Change& change : result.changes) context.Print("{}: {}", change.layer, change.what);
  for (const train::AdaptationTrial& t : result.trials) {
    if (result.trials.size() < 2) break;
    context.Print("rho {:g}: held-out loss {}, frame accuracy {:.2f} %", t.original_share, LossText(t.new_speech.loss),
                  100 * t.new_speech.frame_accuracy);
  }
  std::vector<std::vector<std::string>> rows = {{"held-out speech", "frames", "before: accuracy, loss", "after"},
                                                Row("new", result.new_before, result.new_after)};
  if (result.old_before.frames > 0) rows.push_back(Row("old", result.old_before, result.old_after));
  for (const std::string& line : report::TextTable(rows)) context.PrintLine(line);
  if (result.old_words) {
    context.Print("words of old speech: {:.2f} % wrong, before {:.2f} %", 100 * result.old_words->after,
                  100 * result.old_words->before);
  }
  if (!result.probe_layer.empty()) {
    context.Print("frames in which a fresh classifier tells new from old speech by {}: {}, before {} (a guess: 50 %)",
                  result.probe_layer, train::ProbeText(result.probe_after), train::ProbeText(result.probe_before));
  }
  if (result.trials.size() > 1) context.Print("rho {:g} is the best of them", result.original_share);
  context.PrintLine(result.verdict);
  context.Print("model: {}", result.model.string());
  if (!result.accepted) {
    context.Print("what was learnt all the same: {}", (result.model.parent_path() / "adapted.safetensors").string());
  }
  if (!result.profile.empty()) {
    context.Print("profile: {} ({} bytes), for the model as it was", result.profile.string(),
                  fs::file_size(result.profile));
  }
}

// Whether words were lost, by recognising old speech as the table old-decode says.
void CountOldWords(const AdaptCommandOptions& options, CommandContext& context, train::AdaptationSpeech& speech) {
  const Config decode = context.config().Table("old-decode");
  if (!context.config().Has("old-decode")) return;
  for (const char* key : {"data", "graph"}) {
    const std::string path = decode.Text(key).value_or("");
    if (path.empty() || !fs::is_directory(path)) {
      Throw<UsageError>(
          "{}: counting the words of old speech takes old-decode.data and old-decode.graph, folders; "
          "old-decode.{} is '{}'",
          context.config().Where("old-decode"), key, path);
    }
  }
  for (const char* key : {"model", "out"}) {
    if (decode.Has(key)) Throw<UsageError>("{}: old-decode.{} is set by adapt itself", decode.Where(key), key);
  }
  // Without what else a bundle brings, as the adapted model is measured.
  speech.model_file = pipeline::PartsAt(options.model).model;
  speech.old_word_errors = [&options, &context, decode](const nn::Model& model, const fs::path& file) {
    const fs::path out = fs::path(options.out) / "old-decode" / file.stem();
    return pipeline::MeasureWordErrors(decode, file, model, out, HostOf(context)).rate;
  };
}

// A chain model learns by its own criterion, from chunks of what its speech was made into.
void TakeChainCriterion(const AdaptCommandOptions& options, const nn::Model& model, const Config& given,
                        train::TrainOptions& train) {
  if (!options.store.empty() || !train::IsChain(model)) return;
  train.sequence.criterion.criterion = "chain";
  train.sequence.chain_data = (fs::path(options.out) / "chain").string();
  // Its derivatives, numerator less denominator, are small beside those of cross-entropy; ten times the rate diverges.
  constexpr double kRateFactor = 2;
  if (!given.Has("train.schedule.learning-rate")) train.schedule.learning_rate *= kRateFactor;
  if (!given.Has("train.schedule.final-learning-rate")) train.schedule.final_learning_rate *= kRateFactor;
  if (given.Has("train.data.chunk-frames")) return;
  train.data.chunk_frames = 150;
  train.data.other_chunk_frames = {100, 140};
  if (!given.Has("train.data.minibatch")) train.data.minibatch = 1500;
}

// What a bundle has beside its model need not be given.
pipeline::AdaptSpeechOptions CompletedBy(const pipeline::BundleParts& parts, pipeline::AdaptSpeechOptions speech) {
  if (speech.lexicon.empty() && speech.graph.empty()) speech.lexicon = parts.lexicon;
  if (speech.graph.empty()) pipeline::CompleteBy(speech.weights, parts.weights);
  pipeline::CompleteBy(speech.graph, parts.graph);
  pipeline::CompleteBy(speech.adapt_graph, parts.adapt_graph);
  return speech;
}

void Adapt(const AdaptCommandOptions& options, CommandContext& context) {
  if (options.method == "list") {
    for (const std::string& name : adapt::MethodRegistry::Get().Names()) context.PrintLine(name);
    return;
  }
  const Config keys = pipeline::OptionsOfMethod<adapt::MethodRegistry>(options.method, context.config());
  // Mistakes are told before anything is computed.
  const auto method = adapt::MethodRegistry::Get().Create(options.method, keys);
  CheckFolders(options);
  if (method->needs_old_speech() && options.old_store.empty()) adapt::RefuseMissingOldSpeech(options.method);
  Config optimizer = context.config().Table("optimizer");
  if (!optimizer.Has("type")) optimizer.Set("type", "\"sgd\"");
  const pipeline::BundleParts parts = pipeline::PartsAt(options.model);
  const auto model = std::make_shared<const nn::Model>(nn::Model::Load(parts.model));
  const FolderLock lock(
      options.out, kLock,
      fmt::format("another adaptation is working in '{}': wait for it, or give another folder with --out",
                  options.out));
  train::AdaptationSpeech speech;
  const data::ShardCacheOptions& cache = options.adaptation.train.data.cache;
  speech.held_out_store = pipeline::OpenStore(options.held_out_store, cache);
  speech.old_store = pipeline::OpenStore(options.old_store, cache);
  if (!options.hmm.empty()) speech.hmm_json = hmm::LoadHmm(pipeline::PartsAt(options.hmm).model).ToJson();
  CountOldWords(options, context, speech);
  const std::string store = options.store.empty()
                                ? pipeline::MakeAdaptationStore(CompletedBy(parts, options.speech), parts.model, *model,
                                                                method->needs_words(), options.out, HostOf(context))
                                      .string()
                                : options.store;
  speech.new_store = pipeline::OpenStore(store, cache);
  speech.words_known = !options.store.empty() || pipeline::HasWords(options.speech);
  speech.speaker = options.speech.speaker;
  if (!speech.old_store) log::Warn("without --old-store nobody sees what the model forgets of the speech it knew");
  train::AdaptationOptions adaptation = options.adaptation;
  adaptation.own_held_out = train::SaysWhatIsHeldOut(context.config());
  speech.old_chain_data = options.speech.chain_data;
  TakeChainCriterion(options, *model, context.config(), adaptation.train);
  const train::AdaptationRun run(adaptation, model, std::move(speech), context.seed());
  const train::AdaptationResult result = run.Adapt(options.method, keys, options.out, optimizer);
  Print(result, context);
  context.SetResult(train::ToJson(result));
}

REGISTER_COMMAND(
    "adapt", AdaptCommandOptions, Adapt,
    {.summary = "make a model good on other speech, without forgetting",
     .description = "Trains a model on minutes of other speech (a room, an accent, a speaker), by the method that you "
                    "choose, and measures on held-out speech of it and on speech that the model knew. If nothing is "
                    "gained, or too much forgotten, it says so and the model stays as it was.",
     .example =
         "antiphon adapt exp/dnn/model.safetensors --data mine --lexicon lang/lexicon.txt --old-store exp/store "
         "--out exp/mine\n"
         "antiphon adapt exp/dnn/model.safetensors --method transfer --set transfer.train=top --store exp/mine/store "
         "--old-store exp/store --out exp/top\n"
         "antiphon adapt exp/dnn/model.safetensors --data mine --unsupervised --graph exp/graph --out exp/mine",
     .positionals = {"model"},
     .required = {"model"},
     .tables = pipeline::TablesOfMethods<adapt::MethodRegistry>({"optimizer", "old-decode"}),
     .common = {"method", "out", "data", "lexicon", "store", "old-store", "held-out-store", "speaker", "unsupervised",
                "chain-data", "graph", "weights", "hmm", "train.schedule.epochs", "train.schedule.learning-rate"}});

}  // namespace
}  // namespace antiphon::app
