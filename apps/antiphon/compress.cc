// antiphon compress: a model made smaller by one method, retrained and measured.
#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/same_place.h"
#include "command.h"
#include "compress_plan.h"
#include "compress_variants.h"
#include "method_tables.h"
#include "report/text_table.h"
#include "train/compression.h"

namespace antiphon::app {
namespace {

struct CompressCommandOptions {
  std::string model;
  std::string method;
  std::string out;
  std::string store;
  std::string held_out_store;
  PlanOptionsOfCompress plan;
  train::CompressionOptions compression;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file to compress");
    v("method", method,
      "how: the table of that name holds its options; 'list' names all; empty: a search under a budget");
    v("out", out, "folder: model.safetensors, what it was before retraining, compression.json");
    v("store", store, "frame store for statistics, retraining and measuring; without one only what the method does");
    v("held-out-store", held_out_store,
      "frame store to measure on; empty: what the model's training held out of --store");
    plan.Visit(v);
    compression.Visit(v);
  }
};

std::shared_ptr<const data::FrameStore> OpenStore(const std::string& folder) {
  return folder.empty() ? nullptr : std::make_shared<const data::FrameStore>(folder);
}

std::vector<std::string> Row(const std::string& stage, const train::ModelMeasures& m,
                             const train::ModelMeasures& before) {
  return {stage,
          fmt::format("{}", m.parameters),
          fmt::format("{}", m.bytes),
          fmt::format("{:.1f} %",
                      100.0 * static_cast<double>(m.bytes) / static_cast<double>(std::max<int64_t>(1, before.bytes))),
          fmt::format("{:.2f} %", 100 * m.frame_accuracy),
          fmt::format("{:.4f}", m.loss)};
}

void Compress(const CompressCommandOptions& given, CommandContext& context) {
  CompressCommandOptions options = given;
  // What a person said of it holds; otherwise the model says what it has not learnt.
  options.compression.own_held_out = train::SaysWhatIsHeldOut(context.config());
  if (options.method == "list") {
    for (const std::string& name : compress::MethodRegistry::Get().Names()) context.PrintLine(name);
    return;
  }
  if (options.out.empty()) throw UsageError("--out is missing: the folder for the compressed model");
  RequireOtherPlace(options.model, std::filesystem::path(options.out) / "model.safetensors", "this model");
  Config optimizer = context.config().Table("optimizer");
  if (!optimizer.Has("type")) optimizer.Set("type", "\"natural-gradient\"");
  const auto model = std::make_shared<const nn::Model>(nn::Model::Load(options.model));
  if (options.method.empty() && context.config().Has("variants")) {
    const train::CompressionRun run(options.compression, model, OpenStore(options.store),
                                    OpenStore(options.held_out_store), context.seed());
    const std::string common = fmt::format("{}{}{}\n{}\n{}\n", OptionsToConfig(options.compression).ToToml(),
                                           optimizer.ToToml(), options.store, options.held_out_store, context.seed());
    return RunVariants({options.out, options.model, options.plan.batch, common, &run}, context);
  }
  if (options.method.empty()) {
    return RunPlan({options.plan, options.compression, options.out, model, options.model, OpenStore(options.store),
                    OpenStore(options.held_out_store), optimizer, context.config().Table("decode")},
                   context);
  }
  const Config keys = OptionsOfMethod<compress::MethodRegistry>(options.method, context.config());
  const train::CompressionRun run(options.compression, model, OpenStore(options.store),
                                  OpenStore(options.held_out_store), context.seed());
  const train::CompressionResult result = run.Compress(options.method, keys, options.out, optimizer);
  for (const compress::Change& change : result.changes) context.Print("{}: {}", change.layer, change.what);
  std::vector<std::vector<std::string>> rows = {{"", "parameters", "bytes", "of before", "frame accuracy", "loss"},
                                                Row("before", result.before, result.before),
                                                Row("compressed", result.compressed, result.before),
                                                Row("retrained", result.retrained, result.before)};
  if (!options.compression.retrain || options.store.empty()) rows.pop_back();
  for (const std::string& line : report::TextTable(rows)) context.PrintLine(line);
  context.Print("model: {}", result.model.string());
  context.SetResult(train::ToJson(result));
}

REGISTER_COMMAND(
    "compress", CompressCommandOptions, Compress,
    {.summary = "make a model smaller and faster",
     .description = "With a method: applies it, trains on, and says what was lost at each stage; methods follow one "
                    "another by compressing the result again. Without: searches for methods that meet a budget, "
                    "measures on this machine, keeps what helps and says what it undid; run again, it goes on where it "
                    "was broken off. The table `decode` (options of antiphon decode) makes word errors the measure. "
                    "With a table `variants` (NAME = [\"method=svd\", \"svd.size=0.3\"]): all of them side by side.",
     .example =
         "antiphon compress exp/dnn/model.safetensors --rtf 0.05 --max-wer-loss 1% --store exp/store --out exp/small\n"
         "antiphon compress exp/dnn/model.safetensors --method svd --set svd.energy=0.8 --store exp/store "
         "--out exp/svd\n"
         "antiphon compress exp/svd/model.safetensors --method quantize --store exp/store --out exp/svd8",
     .positionals = {"model"},
     .required = {"model"},
     .tables = TablesOfMethods<compress::MethodRegistry>({"optimizer", "decode", "variants"}),
     .common = {"method", "out", "store", "held-out-store", "rtf", "max-bytes", "max-wer-loss", "retrain", "distill",
                "train.schedule.epochs", "train.schedule.learning-rate", "train.held-out.by",
                "train.held-out.fraction"}});

}  // namespace
}  // namespace antiphon::app
