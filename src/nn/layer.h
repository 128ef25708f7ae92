// Maps input frames to output frames.
//
// Shapes: row-major, one frame per row; N rows, N may be 0. Layers that look at several frames, or carry a state from
// frame to frame, find out from ExecContext::sequences which rows belong together, and give fewer rows than they get:
// those whose frames are all there (TimeContext).
// Units: derivatives are of the loss averaged over frames, in nats.
// Threads: const methods may run together, one Workspace per thread.
// Errors: UsageError with file:line for a layer's keys; ShapeError for wrong inputs.
// Source: chain rule as in Rumelhart, Hinton, Williams, Nature 1986.
//
// What only some layers do stands in nn/layer_capabilities.h, what holds for all layers of a type in nn/layer_traits.h.
// A layer is one file in nn/layers that ends with
//   REGISTER_COMPONENT(LayerRegistry, "foo", [](const LayerArgs& args) { return std::make_unique<Foo>(args); });
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/options.h"
#include "base/random.h"
#include "base/registry.h"
#include "base/time_context.h"
#include "math/gemm.h"
#include "math/matrix.h"
#include "nn/exec_context.h"
#include "nn/gradient_sink.h"
#include "nn/layer_capabilities.h"
#include "nn/parameter.h"
#include "nn/shifted_blocks.h"
#include "nn/workspace.h"

namespace antiphon::nn {

/// Outputs of a layer that one network of several, which hold the layer together, computes.
struct OutputRange {
  static constexpr int kAll = -1;
  int first = 0;
  int count = kAll;  // 0: none
  bool all() const { return count == kAll; }
  bool operator==(const OutputRange&) const = default;
};

/// What a layer's factory gets.
struct LayerArgs {
  int in_dim = 0;
  /// The layer's table. Keys "type", "name" and kCommonLayerKeys belong to the network.
  Config config;
  /// Taken by a last layer that names no `dim`; 0 elsewhere.
  int default_out_dim = 0;
  /// Seed of the initial values; different for each layer.
  uint64_t seed = 0;
  /// False: somebody will set all values (a copy, a model file), so that drawing them would be lost time.
  bool random_values = true;
  /// Position in the network: tells layers apart that draw random masks, also in a network that was loaded or copied.
  uint64_t index = 0;
  /// Outputs that the whole network is to have; 0: as its layers say. What a side task takes that names no `classes`.
  int network_out_dim = 0;
  /// The outputs to hold. A layer that cannot be divided makes all of them.
  OutputRange outputs = {};
};

/// What a layer says of itself, for those who run it; the same for its whole life.
struct LayerProperties {
  /// Outputs of the layer of which this one holds a part; 0: out_dim(), all of them.
  int whole_out_dim = 0;
  /// An output depends on all frames before it, through a state that is kept in the workspace from one piece of a
  /// stream to the next (Workspace::State).
  bool recurrent = false;
  /// Backward may overwrite dy with dx (elementwise layers).
  bool in_place = false;
  /// Backward reads the output again, so that nobody may overwrite it.
  bool needs_output = false;
  /// It has no parameters, and its derivative is a symmetric matrix: Tangent is Backward with dx in the place of dy.
  bool symmetric = false;
  /// The elementwise function that this layer is; kNone if it is not one that a product can absorb.
  Activation activation = Activation::kNone;
  /// What is known of the output's columns.
  ShiftedBlocks output_blocks = {};
};

class Layer {
 public:
  Layer(int in_dim, int out_dim) : in_dim_(in_dim), out_dim_(out_dim) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  int in_dim() const { return in_dim_; }
  int out_dim() const { return out_dim_; }
  /// More than out_dim() in a layer of which other networks hold the other outputs.
  int whole_out_dim() const;

  virtual LayerProperties properties() const { return {}; }
  bool recurrent() const { return properties().recurrent; }
  /// Which frames an output needs.
  virtual TimeContext time_context() const { return {}; }
  /// The context of all layers above, in frames of this layer's output: successive pieces overlap by its span. Called
  /// by the network; a layer with a chain inside passes it on.
  virtual void SetContextAbove(const TimeContext& above) { above_ = above; }
  /// Rows of y for `rows` of x.
  int64_t OutputRows(const ExecContext& ctx, int64_t rows) const;

  /// All trainable values; empty if none. Fixed at construction.
  virtual std::span<Parameter* const> parameters() { return {}; }
  /// Stored but not trained by gradients (running statistics, fixed transforms). Fixed at construction.
  virtual std::span<Parameter* const> buffers() { return {}; }
  /// The layer's own keys, so that the registered factory builds the same shape again (values come from the model
  /// file).
  virtual Config ToConfig() const = 0;

  /// Overwrites y [OutputRows(N), out_dim] for x [N, in_dim]; keeps in ws what Backward needs. y and x must not
  /// overlap, and stay unchanged until Backward. Throws ShapeError, naming both shapes, before any write.
  void Forward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const;

  /// Hands the gradient of each parameter to `sink`, and overwrites dx [N, in_dim] unless dx is empty. dx is computed
  /// before the sink may change a parameter. `ws` comes from the matching Forward. dx may be dy itself if the layer's
  /// properties say in_place.
  void Backward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink& sink);

  /// Whether Tangent is known: second-order training asks before it begins.
  bool has_tangent() const;
  /// Overwrites dy, shaped like y, with the derivative of y along a direction: dx [N, in_dim] in the inputs (empty: 0)
  /// and `direction`, laid out as Network::values(), in the parameters. States that were carried into the piece count
  /// as constants. `ws` comes from the matching Forward, in scoring mode; Backward may follow. Computed in fp32; no two
  /// of the matrices may overlap. Throws ShapeError before any write.
  void Tangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
               MatrixView dy);

  // What not every layer can do; null where it cannot.
  virtual HasTangent* tangent() { return nullptr; }
  virtual HasStatistics* statistics() { return nullptr; }
  virtual Constrained* constraint() { return nullptr; }
  /// Where the layer keeps an activation that it applies at the end of its Forward, set by the network. The derivative
  /// stays with the layer whose activation it is.
  virtual Activation* absorbed_activation() { return nullptr; }
  /// Where the layer keeps what is known of its input's columns, set by the network.
  virtual ShiftedBlocks* input_blocks() { return nullptr; }
  bool has_statistics() const;

 protected:
  const TimeContext& context_above() const { return above_; }
  virtual void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const = 0;
  virtual void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                          GradientSink& sink) = 0;
  /// The part of a direction that belongs to a parameter, in its shape.
  static ConstMatrixView Along(std::span<const float> direction, const Parameter& p) {
    return {direction.data() + p.offset, p.value.rows(), p.value.cols()};
  }

 private:
  int in_dim_;
  int out_dim_;
  TimeContext above_;
};

using LayerRegistry = Registry<Layer, const LayerArgs&>;

/// What every layer's table may say beside its type and name; read by the network.
struct CommonLayerOptions {
  double learning_rate_factor = 1.0;
  double weight_decay_factor = 1.0;
  double max_change = -1.0;
  template <class V>
  void Visit(V& v) {
    v("learning-rate-factor", learning_rate_factor, Range{0, 1e6}, "multiplies the learning rate; 0 freezes the layer");
    v("weight-decay-factor", weight_decay_factor, Range{0, 1e6}, "multiplies the optimiser's weight decay");
    v("max-change", max_change, Range{-1, 1e9}, "limit of one step's change; 0: none, -1: as the optimiser says");
  }
};

/// "type", "name", and the keys of CommonLayerOptions.
extern const std::vector<std::string> kCommonLayerKeys;

/// Options of a layer from its table: as ReadOptions, with the common keys allowed.
template <class Options>
Options ReadLayerOptions(const LayerArgs& args) {
  return ReadOptions<Options>(args.config, kCommonLayerKeys);
}

}  // namespace antiphon::nn
