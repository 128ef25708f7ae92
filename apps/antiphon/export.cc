// antiphon export: a model for other runtimes.
#include <string>

#include "base/error.h"
#include "command.h"
#include "infer/onnx/onnx_export.h"
#include "pipeline/bundle.h"

namespace antiphon::app {
namespace {

struct ExportCommandOptions {
  std::string model, onnx;
  infer::OnnxOptions options;

  template <class V>
  void Visit(V& v) {
    v("model", model, "model file of a network");
    v("onnx", onnx, "file to write");
    options.Visit(v);
  }
};

void Export(const ExportCommandOptions& options, CommandContext& context) {
  const nn::Model model = WithContext([&] { return nn::Model::Load(pipeline::PartsAt(options.model).model); },
                                      [&] { return "exporting '" + options.model + "'"; });
  infer::ExportOnnx(model, options.options, options.onnx);
  context.Print("{}: {} values per row to {} outputs", options.onnx,
                options.options.input == "frames" ? model.feature_dim : model.network.in_dim(),
                model.network.out_dim());
}

REGISTER_COMMAND(
    "export", ExportCommandOptions, Export,
    {.summary = "write a network as an ONNX file",
     .description = "Input x, output y: log-posteriors of the pdf-ids, with --prior-scale 1 what a decoder "
                    "wants. Compressed layers become matrix products.",
     .example = "antiphon export exp/dnn/model.safetensors --onnx model.onnx\n"
                "antiphon export exp/dnn/model.safetensors --onnx model.onnx --input frames --prior-scale 1",
     .positionals = {"model"},
     .required = {"model", "onnx"}});

}  // namespace
}  // namespace antiphon::app
