#include "infer/onnx/onnx_export.h"

#include <fmt/ranges.h>

#include <limits>

#include "base/error.h"
#include "base/file.h"
#include "infer/onnx/onnx_graph.h"

namespace antiphon::infer {
namespace {

// [frames, dim] to [frames, width · dim], the ends repeated.
std::string Splice(OnnxGraph& graph, const std::string& x, int left, int right) {
  const int64_t pads[] = {left, 0, right, 0};
  const std::string padded = graph.Node("Pad", {x, graph.Int64s(pads)}, {}, {{"mode", "edge"}});
  std::vector<std::string> parts;
  const int64_t axes[] = {0};
  for (int k = 0; k <= left + right; ++k) {
    const int64_t start[] = {k};
    const int64_t end[] = {k < left + right ? k - (left + right) : std::numeric_limits<int64_t>::max()};
    parts.push_back(graph.Node("Slice", {padded, graph.Int64s(start), graph.Int64s(end), graph.Int64s(axes)}));
  }
  return graph.Node("Concat", parts, {{"axis", 1}});
}

std::string AddLayers(OnnxGraph& graph, nn::Network& network, std::string x) {
  for (size_t i = 0; i < network.num_layers(); ++i) {
    const auto form = OnnxForms().find(network.layer_type(i));
    if (form == OnnxForms().end()) {
      std::vector<std::string> known;
      for (const auto& [type, unused] : OnnxForms()) known.push_back(type);
      Throw<InputError>("layer '{}' is '{}', which has no form in ONNX here; those that have: {}",
                        network.layer_name(i), network.layer_type(i), fmt::join(known, ", "));
    }
    OnnxLayer layer{graph, network.layer(i)};
    x = form->second(layer, x);
  }
  return x;
}

// Heads are classified one by one.
std::string Finish(OnnxGraph& graph, const nn::Model& model, int out_dim, const OnnxOptions& options, std::string y) {
  const int64_t one_by_one[] = {-1, out_dim / model.frames_per_forward};
  const int64_t together[] = {-1, out_dim};
  if (model.frames_per_forward > 1) y = graph.Node("Reshape", {y, graph.Int64s(one_by_one)});
  if (options.log_softmax) y = graph.Node("LogSoftmax", {y}, {{"axis", 1}});
  if (options.prior_scale > 0) {
    std::vector<float> priors;
    for (const float p : model.log_priors) priors.push_back(static_cast<float>(options.prior_scale) * p);
    y = graph.Node("Sub", {y, graph.Row(priors)});
  }
  if (model.frames_per_forward > 1) y = graph.Node("Reshape", {y, graph.Int64s(together)});
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
  graph.SetInput("x", frames ? model.feature_dim : network.in_dim());
  const std::string x = frames ? Splice(graph, "x", model.left_context, model.right_context) : "x";
  const std::string y = AddLayers(graph, network, x);
  graph.SetOutput("y", Finish(graph, model, network.out_dim(), options, y), network.out_dim());
  graph.SetMetadata("input", options.input);
  graph.SetMetadata("feature_config", model.feature_config);
  graph.SetMetadata("left_context", std::to_string(model.left_context));
  graph.SetMetadata("right_context", std::to_string(model.right_context));
  graph.SetMetadata("frames_per_forward", std::to_string(model.frames_per_forward));
  graph.SetMetadata("first_frame_offset", std::to_string(model.first_frame_offset));
  graph.SetMetadata("prior_scale", fmt::format("{}", options.prior_scale));
  for (const auto& [key, value] : model.descriptions) graph.SetMetadata("description." + key, value);
  WriteFileAtomically(path, graph.Serialize());
}

}  // namespace antiphon::infer
