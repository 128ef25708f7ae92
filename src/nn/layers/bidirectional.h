// Two recurrent chains side by side (bidirectional.cc), for those who run them in their own way.
#pragma once

#include "nn/network.h"

namespace antiphon::nn {

class Bidirectional : public Layer, public HasTangent, public Constrained {
 public:
  explicit Bidirectional(const LayerArgs& args);

  const Network& past() const { return past_; }
  const Network& future() const { return future_; }
  /// Frames after its own that an output sees.
  int right() const { return right_; }

  std::span<Parameter* const> parameters() override { return parameters_; }
  std::span<Parameter* const> buffers() override { return buffers_; }
  TimeContext time_context() const override { return {0, right_, 1}; }
  LayerProperties properties() const override { return {.recurrent = true}; }
  HasTangent* tangent() override { return past_.FirstWithoutTangent() == past_.num_layers() ? this : nullptr; }
  Constrained* constraint() override;
  void SetContextAbove(const TimeContext& above) override { past_.SetContextAbove(above); }
  void AfterSteps(int64_t first, int64_t count) override;
  Config ToConfig() const override;

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const override;
  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                  GradientSink& sink) override;
  void DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                 MatrixView dy) override;

 private:
  /// Its own options are read first (base/option_recorder.h); the size of the layer is that of its first chain, which
  /// is there before it.
  Bidirectional(const LayerArgs& args, int right);
  Bidirectional(const LayerArgs& args, int right, Network past);
  /// Step k of the windows of `rows` outputs is one block: the frames that lie right − k after them.
  ConstMatrixView Windows(const ExecContext& ctx, ConstMatrixView x, int64_t rows, MatrixView windows) const;

  int right_;
  Network past_, future_;
  std::vector<Parameter*> parameters_, buffers_;
  uint64_t index_;
};

}  // namespace antiphon::nn
