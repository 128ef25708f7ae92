// Nodes and constants of an ONNX graph, in order; and what each type of layer becomes in it.
//
// A layer's form is a function registered under the layer's type (infer/onnx/onnx_forms.cc):
//   const OnnxFormRegistration kRelu("relu", [](OnnxLayer& l, const std::string& x) { return l.graph.Node("Relu", {x});
//   });
// It gets the name of the layer's input and returns that of its output. Threads: one per graph.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "math/matrix.h"
#include "nn/network.h"

namespace antiphon::infer {

class OnnxGraph {
 public:
  OnnxGraph();
  ~OnnxGraph();
  OnnxGraph(const OnnxGraph&) = delete;

  /// Returns the constant's name.
  std::string Floats(std::span<const float> values, std::span<const int64_t> dims);
  std::string Floats(ConstMatrixView m);
  std::string Scalar(float value) { return Floats({&value, 1}, {}); }
  std::string Row(std::span<const float> values);
  std::string Int64s(std::span<const int64_t> values);
  std::string Byte(uint8_t value);
  /// Attributes are numbers, texts and lists. Returns the name of the only output.
  std::string Node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::map<std::string, int64_t>& ints = {},
                   const std::map<std::string, std::string>& texts = {},
                   const std::map<std::string, std::vector<int64_t>>& lists = {});
  std::string NodeOverAxis(const std::string& op, const std::string& input, int64_t axis);
  /// Rows first, first + step … of x; the last `behind` rows are not looked at.
  std::string Rows(const std::string& x, int64_t first, int64_t behind, int64_t step = 1);
  /// x with other dimensions; −1: whatever is left.
  std::string Shaped(const std::string& x, std::span<const int64_t> dims);
  /// Dimension i of the result is dimension order[i] of x.
  std::string Transposed(const std::string& x, std::vector<int64_t> order);

  /// A matrix of `dim` columns; `rows` names the number of its rows.
  void SetInput(const std::string& name, const std::string& rows, int64_t dim);
  /// Of the value called `from`.
  void SetOutput(const std::string& name, const std::string& from, const std::string& rows, int64_t dim);
  void SetMetadata(const std::string& key, const std::string& value);
  /// The whole model as bytes of an ONNX file.
  std::string Serialize() const;

 private:
  std::string NewName(const std::string& base);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct OnnxLayer {
  OnnxGraph& graph;
  /// May be changed: it is a copy.
  nn::Layer& layer;

  nn::Parameter* Find(const std::string& name);
  /// The layer's output for `x`.
  Matrix Apply(const Matrix& x) const;
};

/// Adds one layer after another; returns the name of the last one's output. Throws InputError for a layer without form.
std::string AddLayers(OnnxGraph& graph, nn::Network& network, std::string x);

using OnnxForm = std::function<std::string(OnnxLayer& layer, const std::string& x)>;

/// Types that have a form, and these.
std::map<std::string, OnnxForm>& OnnxForms();
struct OnnxFormRegistration {
  OnnxFormRegistration(const std::string& type, OnnxForm form) { OnnxForms().emplace(type, std::move(form)); }
};

}  // namespace antiphon::infer
