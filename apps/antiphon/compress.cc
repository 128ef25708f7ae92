// antiphon compress: a model made smaller by one method, retrained and measured.
#include "pipeline/compress.h"

#include "base/error.h"
#include "base/same_place.h"
#include "command.h"
#include "pipeline/bundle.h"
#include "pipeline/compress_variants.h"
#include "processes.h"

namespace antiphon::app {
namespace {

void Compress(pipeline::CompressRequest request, CommandContext& context) {
  if (request.method == "list") {
    for (const std::string& name : compress::MethodRegistry::Get().Names()) context.PrintLine(name);
    return;
  }
  if (request.out.empty()) throw UsageError("--out is missing: the folder for the compressed model");
  request.model = pipeline::PartsAt(request.model).model;
  RequireOtherPlace(request.model, std::filesystem::path(request.out) / "model.safetensors", "this model");
  pipeline::TakeTables(context.config(), request);
  const pipeline::StageHost host = HostOf(context);
  const Config decode = context.config().Table("decode");
  if (!request.method.empty()) {
    const train::CompressionResult result = pipeline::Compress(request, host);
    for (const std::string& sentence : pipeline::Sentences(request, result)) context.PrintLine(sentence);
    context.SetResult(train::ToJson(result));
  } else if (context.config().Has("variants")) {
    context.SetResult(pipeline::ToJson(pipeline::CompareVariants(request, context.config(), host)));
  } else {
    const auto model = std::make_shared<const nn::Model>(nn::Model::Load(request.model));
    const compress::PlanResult result = pipeline::SearchCompression(
        {request.plan, request.compression, request.out, model, request.model,
         pipeline::OpenStore(request.store, request.compression.train.data.cache),
         pipeline::OpenStore(request.held_out_store, request.compression.train.data.cache), request.optimizer, decode},
        host);
    context.SetResult(pipeline::ToJson(result));
  }
}

REGISTER_COMMAND(
    "compress", pipeline::CompressRequest, Compress,
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
     .tables = pipeline::CompressTables(),
     .common = {"method", "out", "store", "held-out-store", "rtf", "size-mb", "max-wer-loss", "retrain", "distill",
                "train.schedule.epochs", "train.schedule.learning-rate", "train.held-out.by",
                "train.held-out.fraction"}});

}  // namespace
}  // namespace antiphon::app
