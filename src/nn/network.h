// A chain of layers, described in TOML.
//
//   [[layer]]
//   type = "repeat"            # not a layer: its list stands `times` times in the chain (of at most 100000 layers)
//   times = 5
//   layers = [{type = "affine", dim = 2048}, {type = "sigmoid"}]
//   [[layer]]
//   type = "affine"            # the last layer takes the number of senones if it names no `dim`
//
// A type may also stand for several layers (LayerExpansionRegistry): "tdnn" is a splice and an affine layer.
//
// The network's output are logits; the loss (nn/loss.h) and the scorer apply the log-softmax.
// All parameters live in one contiguous block, each starting on 64 bytes, gaps zero: values() is the whole model.
// A network may hold a part of a model that several ranks hold together: some layers, or some outputs of affine and
// linear ones. It has the values that the whole would have there, and all parameters' names in the same order, those
// that are elsewhere without values; what it computes is up to who divided it (parallel/model_parts.h).
// Shapes: x [N, in_dim], output [N, out_dim], or fewer rows if layers look at several frames (time_context()); N may be
// 0 and may change from call to call.
// Threads: Forward may run in several threads, one Workspace each; Backward changes parameters through its sink.
// Errors: UsageError with file:line for layers; ShapeError for data.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nn/layer.h"

namespace antiphon::nn {

/// Whether a new network's weights are drawn, left at zero because the caller will set them all, or not there at all:
/// an outline knows its layers' names and sizes, but cannot compute.
enum class InitialValues { kRandom, kToBeSet, kOutline };

/// Layers first … last − 1 of a network: a stage of a pipeline.
struct LayerRange {
  size_t first = 0;
  size_t last = 0;
};

/// A minibatch as a network sees it.
struct NetworkInput {
  ConstMatrixView x;
  const SequenceLayout* sequences = nullptr;
};

/// A layer type that stands for several: their tables, from the bottom up.
struct LayerExpansion {
  std::vector<Config> layers;
};
using LayerExpansionRegistry = Registry<LayerExpansion, const Config&>;

/// Where a network's values lie: in one block of its own, or in that of a network whose layer it is a part of.
enum class ValueStorage { kOwn, kOfOuterNetwork };

class Network {
 public:
  Network() = default;
  /// Builds the chain from `[[layer]]` tables of `config`. `out_dim` 0: whatever the layers say; else the last layer
  /// must have it. Same seed, same initial values.
  /// `held`: the outputs of each layer that this network holds, empty: everything.
  Network(const Config& config, int in_dim, int out_dim, uint64_t seed, InitialValues values = InitialValues::kRandom,
          std::span<const OutputRange> held = {}, ValueStorage storage = ValueStorage::kOwn);
  Network(Network&&) = default;
  Network& operator=(Network&&) = default;

  /// Deep copy: same layers, same values, own memory.
  Network Clone() const;

  int in_dim() const { return in_dim_; }
  int out_dim() const { return out_dim_; }
  size_t num_layers() const { return layers_.size(); }
  Layer& layer(size_t i) { return *layers_.at(i).layer; }
  const Layer& layer(size_t i) const { return *layers_.at(i).layer; }
  /// "affine1", "relu1", …, or the layer's `name`; unique.
  const std::string& layer_name(size_t i) const { return layers_.at(i).name; }
  const std::string& layer_type(size_t i) const { return layers_.at(i).type; }
  /// The activation above is computed by layer i with its own.
  bool absorbs_above(size_t i) const { return i + 1 < layers_.size() && layers_[i + 1].absorbed; }

  /// Of all layers together.
  TimeContext time_context() const { return context_; }
  /// Some layer carries a state from frame to frame.
  bool recurrent() const;
  /// Rows are frames of sequences: some layer looks at more than one.
  bool needs_sequences() const { return recurrent() || !context_.one_to_one(); }
  /// For a network that is a part of another's layer: what comes above the whole.
  void SetContextAbove(const TimeContext& above);

  /// Output [OutputRows(N), out_dim] in ws, valid until the next call with ws; it may be overwritten by the caller (a
  /// loss puts the derivative there) once it is not needed.
  MatrixView Forward(const ExecContext& ctx, ConstMatrixView x, Workspace& ws) const;

  /// `dy`, shaped like the output; gradients go to `sink` from the top layer down. `after_layer(i)` is called when
  /// layer i has handed over all gradients. Returns dL/dx if `want_dx`, else an empty view. Stops below the lowest
  /// layer that can learn.
  MatrixView Backward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, GradientSink& sink,
                      bool want_dx = false, const std::function<void(size_t)>& after_layer = {});

  /// The derivative of the last Forward's output along `direction` in the parameters, laid out as values() of the
  /// outermost network, and dx in the inputs (empty: 0); in ws, valid until the next Tangent. As Layer::Tangent: after
  /// Forward in scoring mode, before Backward.
  MatrixView Tangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws);
  /// The lowest layer that has no tangent; num_layers() if all have one.
  size_t FirstWithoutTangent() const;

  // The same for a part of the chain. `x` are the inputs of the range's lowest layer, which begins_range.
  // Only the output of the whole network may be overwritten.
  MatrixView Forward(const ExecContext& ctx, ConstMatrixView x, LayerRange range, Workspace& ws) const;
  MatrixView Backward(const ExecContext& ctx, ConstMatrixView dy, LayerRange range, Workspace& ws, GradientSink& sink,
                      bool want_dx, const std::function<void(size_t)>& after_layer = {});
  /// False if the layer below computes layer i with its own, so that no range may begin with it.
  bool begins_range(size_t i) const { return !layers_.at(i).absorbed; }
  LayerRange all_layers() const { return {0, layers_.size()}; }
  /// The part of values() that belongs to a range.
  std::span<float> values(LayerRange range);

  /// Trainable parameters from the bottom layer up, in the order of values(); names are unique in the network.
  std::span<Parameter* const> parameters() const { return parameters_; }
  /// Stored but not trained.
  std::span<Parameter* const> buffers() const { return buffers_; }
  /// All trainable values as one span (gaps between parameters included, always 0). After writing call MarkChanged.
  std::span<float> values() { return {arena_.data(), static_cast<size_t>(arena_.size())}; }
  std::span<const float> values() const { return {arena_.data(), static_cast<size_t>(arena_.size())}; }
  size_t num_values() const { return static_cast<size_t>(arena_.size()); }
  /// Trainable numbers, without gaps: those held here, and those of the whole model.
  int64_t num_parameters() const;
  int64_t num_whole_parameters() const;
  void MarkChanged();
  /// Copies parameters and buffers of a network of the same shape.
  void CopyFrom(const Network& other);

  /// Checksum of parameters and buffers: equal networks, equal value.
  uint64_t Hash() const;

  /// As Constrained::AfterSteps, of all layers.
  void AfterSteps(int64_t first, int64_t count);
  void AfterStep(int64_t step) { AfterSteps(step, 1); }

  /// Clears statistics over data, then gathers them from `batches` (called until it returns an empty view).
  void RecomputeStatistics(const ExecContext& ctx, const std::function<NetworkInput()>& batches, Workspace& ws);
  bool has_statistics() const;
  /// The two steps of it, for passes that others run: `ws` comes from one in training mode without dropout.
  void ResetStatistics();
  void AccumulateStatistics(Workspace& ws);
  /// Appends the buffers that hold them: sums, of which those of several networks may be added up.
  void ListStatistics(std::vector<Parameter*>& list);
  /// Appends how many relus do not vary: what the statistics behind them say, by layer, from the bottom up. Those of
  /// frozen layers, and of layers that this network does not hold, are not asked.
  void ListStillUnits(std::vector<StillInputs>& list) const;
  void FreezeStatistics();

  /// Removes the layers from `first` on / appends a layer described by `config`, for growing a network (pre-training)
  /// and for exchanging the output layer. Values of the other layers stay. Pointers from parameters() become invalid.
  void Truncate(size_t first);
  void Append(const Config& layer_config, int default_out_dim, uint64_t seed);

  /// `[[layer]]` tables that build the same network again.
  std::string ToToml() const;

 private:
  struct Entry {
    std::string name;
    std::string type;
    std::string where;  // it is described: file:line
    std::unique_ptr<Layer> layer;
    Config common;          // the common keys of the layer's table
    bool absorbed = false;  // computed by the layer below
  };
  class Names;
  void AddLayer(const Config& config, int default_out_dim, uint64_t seed, InitialValues values, Names& names,
                OutputRange held = {});
  void Finish();
  void MoveValuesTogether();

  int in_dim_ = 0;
  int out_dim_ = 0;
  int network_out_dim_ = 0;  // asked for; 0: as the layers say
  ValueStorage storage_ = ValueStorage::kOwn;
  TimeContext context_;
  std::vector<Entry> layers_;
  std::vector<OutputRange> held_;  // empty: everything
  std::vector<Parameter*> parameters_;
  std::vector<Parameter*> buffers_;
  Matrix arena_;
};

}  // namespace antiphon::nn
