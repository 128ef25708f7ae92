// What layers become in ONNX. A layer that is linear in its input, whatever its weights are stored as, is asked what it
// does to the unit vectors: so a compressed one becomes the matrix that it stands for.
#include <cmath>

#include "infer/onnx/onnx_graph.h"
#include "nn/quantize.h"

namespace antiphon::infer {
namespace {

// Inputs rounded to 8 bits by calibration; afterwards the layer itself takes them as they are.
std::string RoundInput(OnnxLayer& l, const std::string& x) {
  nn::Parameter* const scale = l.Find("input_scale");
  const nn::Parameter* const zero = l.Find("input_zero");
  if (scale == nullptr || zero == nullptr || !(scale->value(0, 0) > 0)) return x;
  const std::string s = l.graph.Scalar(scale->value(0, 0));
  const std::string z = l.graph.Byte(static_cast<uint8_t>(zero->value(0, 0)));
  scale->value(0, 0) = 0;
  return l.graph.Node("DequantizeLinear", {l.graph.Node("QuantizeLinear", {x, s, z}), s, z});
}

std::string Product(OnnxLayer& l, const std::string& input) {
  const std::string x = RoundInput(l, input);
  if (Activation* const absorbed = l.layer.absorbed_activation()) *absorbed = Activation::kNone;
  const int64_t in = l.layer.in_dim();
  Matrix units(in, in);
  for (int64_t i = 0; i < in; ++i) units(i, i) = 1;
  const Matrix offset = l.Apply(Matrix(1, in));
  Matrix weight = l.Apply(units);
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t c = 0; c < weight.cols(); ++c) weight(i, c) -= offset(0, c);
  }
  const std::string y = l.graph.Node("MatMul", {x, l.graph.Floats(weight)});
  return l.graph.Node("Add", {y, l.graph.Row(offset.view().Row(0))});
}

// Signs times the frame's mean absolute value.
std::string BinaryProduct(OnnxLayer& l, const std::string& x) {
  if (!l.layer.ToConfig().Bool("binary-input").value_or(false)) return Product(l, x);
  const std::string mean = l.graph.NodeOverAxis("ReduceMean", l.graph.Node("Abs", {x}), 1);
  const std::string below = l.graph.Node("Less", {x, l.graph.Scalar(0)});
  const std::string signs = l.graph.Node("Where", {below, l.graph.Node("Neg", {mean}), mean});
  const ConstMatrixView weight = l.Find("weight")->value;
  Matrix rounded(weight.rows(), weight.cols());
  nn::RoundToSigns(weight, rounded);
  Matrix transposed(weight.cols(), weight.rows());
  for (int64_t o = 0; o < weight.rows(); ++o) {
    for (int64_t i = 0; i < weight.cols(); ++i) transposed(i, o) = rounded(o, i);
  }
  const std::string y = l.graph.Node("MatMul", {signs, l.graph.Floats(transposed)});
  const nn::Parameter* const bias = l.Find("bias");
  return bias == nullptr ? y : l.graph.Node("Add", {y, l.graph.Row(bias->value.Row(0))});
}

// A scale and an offset per dimension.
std::string Diagonal(OnnxLayer& l, const std::string& x) {
  const int64_t dim = l.layer.in_dim();
  Matrix probes(2, dim);
  for (float& v : probes.Row(1)) v = 1;
  const Matrix y = l.Apply(probes);
  Matrix scale(1, dim);
  for (int64_t c = 0; c < dim; ++c) scale(0, c) = y(1, c) - y(0, c);
  const std::string scaled = l.graph.Node("Mul", {x, l.graph.Row(scale.view().Row(0))});
  return l.graph.Node("Add", {scaled, l.graph.Row(y.view().Row(0))});
}

// Rows of a given root mean square; a row of zeros stays so.
std::string Renorm(OnnxLayer& l, const std::string& x) {
  Matrix ones(1, l.layer.in_dim());
  for (float& v : ones.Row(0)) v = 1;
  const float target = l.Apply(ones)(0, 0) * std::sqrt(static_cast<float>(l.layer.in_dim()));
  const std::string norm = l.graph.NodeOverAxis("ReduceL2", x, 1);
  const std::string factor =
      l.graph.Node("Div", {l.graph.Scalar(target), l.graph.Node("Max", {norm, l.graph.Scalar(1e-30F)})});
  return l.graph.Node("Mul", {x, factor});
}

std::string PNorm(OnnxLayer& l, const std::string& x) {
  const auto p = static_cast<float>(l.layer.ToConfig().Real("p").value_or(2.0));
  const int64_t groups[] = {-1, l.layer.out_dim(), l.layer.in_dim() / l.layer.out_dim()};
  const int64_t flat[] = {-1, l.layer.out_dim()};
  const std::string grouped = l.graph.Shaped(l.graph.Node("Abs", {x}), groups);
  // Relative to the largest, as powers of large inputs leave the range of float.
  const std::string largest =
      l.graph.Node("Max", {l.graph.NodeOverAxis("ReduceMax", grouped, 2), l.graph.Scalar(1e-30F)});
  const std::string powers = l.graph.Node("Pow", {l.graph.Node("Div", {grouped, largest}), l.graph.Scalar(p)});
  const int64_t last[] = {2};
  const std::string sum = l.graph.Node("ReduceSum", {powers, l.graph.Int64s(last)}, {{"keepdims", 1}});
  const std::string root = l.graph.Node("Pow", {sum, l.graph.Scalar(1 / p)});
  return l.graph.Shaped(l.graph.Node("Mul", {root, largest}), flat);
}

OnnxForm Function(const std::string& op) {
  return [op](OnnxLayer& l, const std::string& x) { return l.graph.Node(op, {x}); };
}
OnnxForm OverClasses(const std::string& op) {
  return [op](OnnxLayer& l, const std::string& x) { return l.graph.Node(op, {x}, {{"axis", 1}}); };
}
std::string Nothing(OnnxLayer&, const std::string& x) { return x; }

const OnnxFormRegistration kForms[] = {{"affine", Product},
                                       {"inverse-cosine", Product},
                                       {"frame-affine", Product},
                                       {"lhuc", Diagonal},
                                       {"linear", Product},
                                       {"fixed-affine", Product},
                                       {"sparse-affine", Product},
                                       {"circulant-affine", Product},
                                       {"quantized-affine", Product},
                                       {"binary-affine", BinaryProduct},
                                       {"normalize", Diagonal},
                                       {"batch-norm", Diagonal},
                                       {"renorm", Renorm},
                                       {"p-norm", PNorm},
                                       {"relu", Function("Relu")},
                                       {"sigmoid", Function("Sigmoid")},
                                       {"tanh", Function("Tanh")},
                                       {"softmax", OverClasses("Softmax")},
                                       {"log-softmax", OverClasses("LogSoftmax")},
                                       {"dropout", Nothing},
                                       {"spec-mask", Nothing}};

}  // namespace
}  // namespace antiphon::infer
