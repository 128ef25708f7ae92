#include "infer/onnx/onnx_graph.h"

#define ONNX_NAMESPACE onnx
#define ONNX_ML 1
#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include <array>
#include <limits>

#include "base/check.h"
#include "base/error.h"
#include "nn/workspace.h"

namespace antiphon::infer {

struct OnnxGraph::Impl {
  onnx::ModelProto model;
  int next = 0;
};

namespace {

constexpr int kOpset = 13;
constexpr int kIrVersion = 7;

void SetShape(onnx::ValueInfoProto* value, const std::string& name, const std::string& rows, int64_t dim) {
  value->set_name(name);
  auto* const type = value->mutable_type()->mutable_tensor_type();
  type->set_elem_type(onnx::TensorProto::FLOAT);
  type->mutable_shape()->add_dim()->set_dim_param(rows);
  type->mutable_shape()->add_dim()->set_dim_value(dim);
}

}  // namespace

OnnxGraph::OnnxGraph() : impl_(std::make_unique<Impl>()) {
  impl_->model.set_ir_version(kIrVersion);
  impl_->model.set_producer_name("antiphon");
  impl_->model.add_opset_import()->set_version(kOpset);
  impl_->model.mutable_graph()->set_name("acoustic_model");
}
OnnxGraph::~OnnxGraph() = default;

std::string OnnxGraph::NewName(const std::string& base) { return base + std::to_string(impl_->next++); }

std::string OnnxGraph::Floats(std::span<const float> values, std::span<const int64_t> dims) {
  auto* const tensor = impl_->model.mutable_graph()->add_initializer();
  tensor->set_name(NewName("constant"));
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  for (const int64_t d : dims) tensor->add_dims(d);
  tensor->set_raw_data(values.data(), values.size_bytes());
  return tensor->name();
}

std::string OnnxGraph::Floats(ConstMatrixView m) {
  const Matrix dense(m);
  const int64_t dims[] = {m.rows(), m.cols()};
  return Floats({dense.data(), static_cast<size_t>(dense.size())}, dims);
}

std::string OnnxGraph::Row(std::span<const float> values) {
  const int64_t dims[] = {std::ssize(values)};
  return Floats(values, dims);
}

std::string OnnxGraph::Int64s(std::span<const int64_t> values) {
  auto* const tensor = impl_->model.mutable_graph()->add_initializer();
  tensor->set_name(NewName("constant"));
  tensor->set_data_type(onnx::TensorProto::INT64);
  tensor->add_dims(std::ssize(values));
  tensor->set_raw_data(values.data(), values.size_bytes());
  return tensor->name();
}

std::string OnnxGraph::Byte(uint8_t value) {
  auto* const tensor = impl_->model.mutable_graph()->add_initializer();
  tensor->set_name(NewName("constant"));
  tensor->set_data_type(onnx::TensorProto::UINT8);
  tensor->set_raw_data(&value, 1);
  return tensor->name();
}

std::string OnnxGraph::Node(const std::string& op, const std::vector<std::string>& inputs,
                            const std::map<std::string, int64_t>& ints, const std::map<std::string, std::string>& texts,
                            const std::map<std::string, std::vector<int64_t>>& lists) {
  auto* const node = impl_->model.mutable_graph()->add_node();
  node->set_op_type(op);
  node->set_name(NewName(op));
  for (const std::string& input : inputs) node->add_input(input);
  node->add_output(node->name() + "_out");
  const auto attribute = [node](const std::string& name, onnx::AttributeProto::AttributeType type) {
    auto* const added = node->add_attribute();
    added->set_name(name);
    added->set_type(type);
    return added;
  };
  for (const auto& [name, value] : ints) attribute(name, onnx::AttributeProto::INT)->set_i(value);
  for (const auto& [name, value] : texts) attribute(name, onnx::AttributeProto::STRING)->set_s(value);
  for (const auto& [name, values] : lists) {
    auto* const list = attribute(name, onnx::AttributeProto::INTS);
    for (const int64_t value : values) list->add_ints(value);
  }
  return node->output(0);
}

std::string OnnxGraph::NodeOverAxis(const std::string& op, const std::string& input, int64_t axis) {
  return Node(op, {input}, {{"keepdims", 1}}, {}, {{"axes", {axis}}});
}

std::string OnnxGraph::Rows(const std::string& x, int64_t first, int64_t behind, int64_t step) {
  const int64_t end = behind > 0 ? -behind : std::numeric_limits<int64_t>::max();
  return Node("Slice", {x, Int64s({&first, 1}), Int64s({&end, 1}), Int64s(std::array{int64_t{0}}), Int64s({&step, 1})});
}

std::string OnnxGraph::Shaped(const std::string& x, std::span<const int64_t> dims) {
  return Node("Reshape", {x, Int64s(dims)});
}

std::string OnnxGraph::Transposed(const std::string& x, std::vector<int64_t> order) {
  return Node("Transpose", {x}, {}, {}, {{"perm", std::move(order)}});
}

void OnnxGraph::SetInput(const std::string& name, const std::string& rows, int64_t dim) {
  SetShape(impl_->model.mutable_graph()->add_input(), name, rows, dim);
}

void OnnxGraph::SetOutput(const std::string& name, const std::string& from, const std::string& rows, int64_t dim) {
  auto* const node = impl_->model.mutable_graph()->add_node();
  node->set_op_type("Identity");
  node->set_name(NewName("Identity"));
  node->add_input(from);
  node->add_output(name);
  SetShape(impl_->model.mutable_graph()->add_output(), name, rows, dim);
}

void OnnxGraph::SetMetadata(const std::string& key, const std::string& value) {
  auto* const entry = impl_->model.add_metadata_props();
  entry->set_key(key);
  entry->set_value(value);
}

std::string OnnxGraph::Serialize() const {
  if (impl_->model.ByteSizeLong() > (size_t{1} << 31) - 1) {
    Throw<InputError>("an ONNX file holds less than 2 GiB, the model would take {} bytes", impl_->model.ByteSizeLong());
  }
  std::string bytes;
  CHECK(impl_->model.SerializeToString(&bytes));
  return bytes;
}

nn::Parameter* OnnxLayer::Find(const std::string& name) {
  for (const auto& all : {layer.parameters(), layer.buffers()}) {
    for (nn::Parameter* p : all) {
      if (p->name == name || p->name.ends_with("." + name)) return p;
    }
  }
  return nullptr;
}

Matrix OnnxLayer::Apply(const Matrix& x) const {
  nn::Workspace workspace;
  Matrix y(x.rows(), layer.out_dim());
  layer.Forward({}, x, y, workspace);
  return y;
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

std::map<std::string, OnnxForm>& OnnxForms() {
  static std::map<std::string, OnnxForm> forms;
  return forms;
}

}  // namespace antiphon::infer
