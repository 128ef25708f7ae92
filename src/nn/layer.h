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

class Layer {
 public:
  Layer(int in_dim, int out_dim) : in_dim_(in_dim), out_dim_(out_dim) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  int in_dim() const { return in_dim_; }
  int out_dim() const { return out_dim_; }
  /// More than out_dim() in a layer of which other networks hold the other outputs.
  virtual int whole_out_dim() const { return out_dim_; }

  /// Which frames an output needs.
  virtual TimeContext time_context() const { return {}; }
  /// Whether an output depends on all frames before it, through a state that is kept in the workspace from one piece of
  /// a stream to the next (Workspace::State).
  virtual bool recurrent() const { return false; }
  /// The context of all layers above, in frames of this layer's output: successive pieces overlap by its span. Called
  /// by the network.
  virtual void SetContextAbove(const TimeContext& above) { above_ = above; }
  /// What is known of the output's columns; called by the network, which tells the layer above.
  virtual ShiftedBlocks output_blocks() const { return {}; }
  virtual void SetInputBlocks(const ShiftedBlocks& /*blocks*/) {}
  /// Rows of y for `rows` of x.
  int64_t OutputRows(const ExecContext& ctx, int64_t rows) const;

  /// Overwrites y [OutputRows(N), out_dim] for x [N, in_dim]; keeps in ws what Backward needs. y and x must not
  /// overlap, and stay unchanged until Backward. Throws ShapeError, naming both shapes, before any write.
  void Forward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const;

  /// Hands the gradient of each parameter to `sink`, and overwrites dx [N, in_dim] unless dx is empty. dx is computed
  /// before the sink may change a parameter. `ws` comes from the matching Forward. dx may be dy itself if in_place()
  /// says so.
  void Backward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx, GradientSink& sink);

  /// Whether Tangent is known: second-order training asks before it begins.
  virtual bool has_tangent() const { return false; }
  /// Overwrites dy, shaped like y, with the derivative of y along a direction: dx [N, in_dim] in the inputs (empty: 0)
  /// and `direction`, laid out as Network::values(), in the parameters. States that were carried into the piece count
  /// as constants. `ws` comes from the matching Forward, in scoring mode; Backward may follow. Computed in fp32; no two
  /// of the matrices may overlap. Throws ShapeError before any write.
  void Tangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
               MatrixView dy);

  /// All trainable values; empty if none. Fixed at construction.
  virtual std::span<Parameter* const> parameters() { return {}; }
  /// Stored but not trained by gradients (running statistics, fixed transforms). Fixed at construction.
  virtual std::span<Parameter* const> buffers() { return {}; }

  /// The layer's own keys, so that the registered factory builds the same shape again (values come from the model
  /// file).
  virtual Config ToConfig() const = 0;

  /// Backward may overwrite dy with dx (elementwise layers).
  virtual bool in_place() const { return false; }
  /// Backward reads the output again, so that nobody may overwrite it.
  virtual bool needs_output() const { return false; }
  /// The elementwise function that this layer is; kNone if it is not one that a product can absorb.
  virtual Activation activation() const { return Activation::kNone; }
  /// Asks the layer to apply `activation` at the end of its Forward (kNone: to stop doing so). False if it cannot. The
  /// derivative stays with the absorbed layer. Called by Network only.
  virtual bool AbsorbActivation(Activation activation) { return activation == Activation::kNone; }

  /// Called after step number `step` of training, on all replicas alike: brings values back to where they may be.
  virtual void AfterStep(int64_t /*step*/) {}

  /// Statistics over data (batch normalisation): cleared, then gathered from passes in training mode. Used after
  /// parameters were averaged, when the old statistics no longer fit.
  virtual bool has_statistics() const { return false; }
  virtual void ResetStatistics() {}
  virtual void AccumulateStatistics(Workspace&) {}
  /// They stay as they are from here on: the layer is frozen. Called by Network, or the layer around this one.
  virtual void FreezeStatistics() {}

 protected:
  const TimeContext& context_above() const { return above_; }
  virtual void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const = 0;
  virtual void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                          GradientSink& sink) = 0;
  /// Called if has_tangent(); dx is empty only if there are parameters. By default Backward with dx in the place of dy,
  /// which serves layers without parameters whose derivative is a symmetric matrix: elementwise ones, softmax.
  virtual void DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                         MatrixView dy);
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

/// Keys that every layer's table may hold, read by the network: "type", "name", "learning-rate-factor",
/// "weight-decay-factor", "max-change".
extern const std::vector<std::string> kCommonLayerKeys;

/// Options of a layer from its table: as ReadOptions, with the common keys allowed.
template <class Options>
Options ReadLayerOptions(const LayerArgs& args) {
  return ReadOptions<Options>(args.config, kCommonLayerKeys);
}

}  // namespace antiphon::nn
