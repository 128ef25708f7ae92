// What layers become in ONNX that see neighbouring frames or positions. Rows are frames; a layer's own context makes
// them fewer, as in the network itself.
#include <algorithm>

#include "base/options.h"
#include "infer/onnx/onnx_graph.h"
#include "nn/layers/convolution_geometry.h"
#include "nn/layers/ensemble.h"
#include "nn/layers/residual.h"

namespace antiphon::infer {
namespace {

// Of each row that an output stands for, the one `offset` later.
std::string RowsAt(OnnxGraph& graph, const std::string& x, int64_t offset, const TimeContext& context) {
  return graph.Rows(x, context.left + offset, context.right - offset + context.stride - 1, context.stride);
}

std::string SplicedRows(OnnxLayer& l, const std::string& x) {
  const std::vector<int64_t> offsets = l.layer.ToConfig().Ints("offsets").value();
  std::vector<std::string> parts;
  for (const int64_t offset : offsets) {
    parts.push_back(RowsAt(l.graph, x, offset, l.layer.time_context()));
  }
  return parts.size() == 1 ? parts[0] : l.graph.Node("Concat", parts, {{"axis", 1}});
}

std::string Shortcut(OnnxLayer& l, const std::string& x) {
  auto& residual = dynamic_cast<nn::Residual&>(l.layer);
  const TimeContext context = residual.time_context();
  const std::string inner = AddLayers(l.graph, residual.inner(), x);
  const std::string own = RowsAt(l.graph, x, 0, context);
  return l.graph.Node("Add", {inner, l.graph.Node("Mul", {own, l.graph.Scalar(residual.scale())})});
}

std::string MeanOfMembers(OnnxLayer& l, const std::string& x) {
  std::string sum;
  for (nn::Ensemble::Member& member : dynamic_cast<nn::Ensemble&>(l.layer).members()) {
    const std::string seen = l.graph.Rows(x, member.left_unseen, member.right_unseen);
    const std::string own = AddLayers(l.graph, member.network, seen);
    const std::string share = l.graph.Node("Mul", {own, l.graph.Scalar(member.share)});
    sum = sum.empty() ? share : l.graph.Node("Add", {sum, share});
  }
  return sum;
}

// [frames, positions · channels] to [frames, channels, positions], as ONNX has it, and back.
std::string ChannelsFirst(OnnxGraph& graph, const std::string& x, int64_t channels) {
  const int64_t dims[] = {0, -1, channels};
  return graph.Transposed(graph.Shaped(x, dims), {0, 2, 1});
}
std::string PositionsFirst(OnnxGraph& graph, const std::string& y) {
  const int64_t dims[] = {0, -1};
  return graph.Shaped(graph.Transposed(y, {0, 2, 1}), dims);
}

// Frames at several offsets are further channels.
std::string ConvolutionOverRows(OnnxLayer& l, const std::string& x) {
  if (Activation* const absorbed = l.layer.absorbed_activation()) *absorbed = Activation::kNone;
  const nn::ConvolutionGeometry geometry(ReadOptions<nn::ConvolutionOptions>(l.layer.ToConfig()), l.layer.in_dim());
  const nn::ConvolutionOptions& options = geometry.options;
  std::vector<std::string> frames;
  for (const int64_t offset : options.offsets) {
    const std::string frame = RowsAt(l.graph, x, offset, geometry.context);
    const int64_t dims[] = {0, options.channels, -1};
    frames.push_back(options.channels_first ? l.graph.Shaped(frame, dims)
                                            : ChannelsFirst(l.graph, frame, options.channels));
  }
  const std::string channels = frames.size() == 1 ? frames[0] : l.graph.Node("Concat", frames, {{"axis", 1}});
  const ConstMatrixView weight = l.Find("weight")->value;
  const int64_t dims[] = {options.filters, geometry.num_offsets() * options.channels, options.window};
  std::vector<float> filters;
  for (int64_t f = 0; f < dims[0]; ++f) {
    for (int64_t c = 0; c < dims[1]; ++c) {
      for (int64_t j = 0; j < options.window; ++j) {
        const int64_t offset = c / options.channels;
        filters.push_back(weight(f, offset * geometry.window() + j * options.channels + c % options.channels));
      }
    }
  }
  const int64_t before = -geometry.first();
  const int64_t covered = (geometry.out_height() - 1) * int64_t{options.stride} + options.window;
  const std::string y =
      l.graph.Node("Conv", {channels, l.graph.Floats(filters, dims), l.graph.Row(l.Find("bias")->value.Row(0))}, {}, {},
                   {{"kernel_shape", {options.window}},
                    {"strides", {options.stride}},
                    {"pads", {before, std::max<int64_t>(0, covered - before - geometry.height())}}});
  return PositionsFirst(l.graph, y);
}

// A last window that reaches beyond the end covers the positions that exist.
std::string PoolingOverRows(OnnxLayer& l, const std::string& x) {
  const Config config = l.layer.ToConfig();
  const int64_t channels = config.Int("channels").value();
  const int64_t window = config.Int("window").value();
  const int64_t stride = config.Int("stride").value();
  const int64_t height = l.layer.in_dim() / channels;
  const int64_t covered = (l.layer.out_dim() / channels - 1) * stride + window;
  const bool max = config.Text("function").value() == "max";
  return PositionsFirst(
      l.graph,
      l.graph.Node(
          max ? "MaxPool" : "AveragePool", {ChannelsFirst(l.graph, x, channels)}, {}, {},
          {{"kernel_shape", {window}}, {"strides", {stride}}, {"pads", {0, std::max<int64_t>(0, covered - height)}}}));
}

const OnnxFormRegistration kFormsOfNeighbours[] = {{"splice", SplicedRows},
                                                   {"residual", Shortcut},
                                                   {"ensemble", MeanOfMembers},
                                                   {"convolution", ConvolutionOverRows},
                                                   {"pooling", PoolingOverRows}};

}  // namespace
}  // namespace antiphon::infer
