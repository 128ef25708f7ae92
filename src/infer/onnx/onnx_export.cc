#include "infer/onnx/onnx_export.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/score_source.h"
#include "infer/onnx/onnx_graph.h"

namespace antiphon::infer {
namespace {

// Rows behind the last frame, so that the outputs at the end are whole.
int RowsBehind(const TimeContext& context) { return context.right + context.stride - 1; }

std::string WithRepeatedEnds(OnnxGraph& graph, const std::string& rows, int before, int behind) {
  if (before == 0 && behind == 0) return rows;
  const int64_t pads[] = {before, 0, behind, 0};
  return graph.Node("Pad", {rows, graph.Int64s(pads)}, {}, {{"mode", "edge"}});
}

// The window of each frame, and the windows before and behind that layers look at: as in training, where they are
// repeats of the first and of the last window, not those of a frame that is repeated.
std::string Windows(OnnxGraph& graph, const std::string& x, const nn::Model& model) {
  const TimeContext context = model.network.time_context();
  const int width = model.left_context + 1 + model.right_context;
  std::string windows = WithRepeatedEnds(graph, x, model.left_context, model.right_context);
  if (width > 1) {
    std::vector<std::string> parts;
    for (int k = 0; k < width; ++k) parts.push_back(graph.Rows(windows, k, width - 1 - k));
    windows = graph.Node("Concat", parts, {{"axis", 1}});
  }
  return WithRepeatedEnds(graph, windows, context.left, RowsBehind(context));
}

// Heads are classified one by one.
std::string Finish(OnnxGraph& graph, const nn::Model& model, int out_dim, const OnnxOptions& options, std::string y) {
  const int64_t one_by_one[] = {-1, out_dim / model.frames_per_forward};
  const int64_t together[] = {-1, out_dim};
  if (model.frames_per_forward > 1) y = graph.Shaped(y, one_by_one);
  if (options.log_softmax) y = graph.Node("LogSoftmax", {y}, {{"axis", 1}});
  if (options.prior_scale > 0) {
    std::vector<float> priors;
    // Beside the score of a class that was never seen, whatever the network gives for it is rounded away.
    for (const float p : model.log_priors) {
      priors.push_back(WasSeen(p) ? static_cast<float>(options.prior_scale) * p : -kDisabledScore);
    }
    y = graph.Node("Sub", {y, graph.Row(priors)});
  }
  if (model.frames_per_forward > 1) y = graph.Shaped(y, together);
  return y;
}

}  // namespace

void ExportOnnx(const nn::Model& model, const OnnxOptions& options, const std::filesystem::path& path) {
  model.Validate();
  if (options.prior_scale > 0 && model.log_priors.empty()) {
    throw InputError("the model carries no class priors: export it with prior-scale = 0");
  }
  nn::Network network = model.network.Clone();
  OnnxGraph graph;
  const bool frames = options.input == "frames";
  graph.SetInput("x", "frames", frames ? model.feature_dim : network.in_dim());
  const std::string y = AddLayers(graph, network, frames ? Windows(graph, "x", model) : "x");
  const TimeContext context = network.time_context();
  const bool row_by_row = context.stride == 1 && (frames || context.left + context.right == 0);
  graph.SetOutput("y", Finish(graph, model, network.out_dim(), options, y), row_by_row ? "frames" : "outputs",
                  network.out_dim());
  graph.SetMetadata("input", options.input);
  graph.SetMetadata("feature_config", model.feature_config);
  graph.SetMetadata("left_context", std::to_string(model.left_context));
  graph.SetMetadata("right_context", std::to_string(model.right_context));
  graph.SetMetadata("frames_before", std::to_string(context.left));
  graph.SetMetadata("frames_behind", std::to_string(RowsBehind(context)));
  graph.SetMetadata("stride", std::to_string(context.stride));
  graph.SetMetadata("frame_subsampling", std::to_string(model.frame_subsampling));
  graph.SetMetadata("frames_per_forward", std::to_string(model.frames_per_forward));
  graph.SetMetadata("first_frame_offset", std::to_string(model.first_frame_offset));
  graph.SetMetadata("prior_scale", fmt::format("{}", options.prior_scale));
  for (const auto& [key, value] : model.descriptions) graph.SetMetadata("description." + key, value);
  WriteFileAtomically(path, graph.Serialize());
}

}  // namespace antiphon::infer
