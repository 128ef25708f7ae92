// A shortcut around a chain of layers (residual.cc), for those who run the chain in their own way.
#pragma once

#include "nn/network.h"

namespace antiphon::nn {

class Residual : public Layer, public HasTangent, public HasStatistics, public Constrained {
 public:
  explicit Residual(const LayerArgs& args);

  const Network& inner() const { return inner_; }
  Network& inner() { return inner_; }
  float scale() const { return static_cast<float>(scale_); }

  std::span<Parameter* const> parameters() override { return inner_.parameters(); }
  std::span<Parameter* const> buffers() override { return inner_.buffers(); }
  TimeContext time_context() const override { return inner_.time_context(); }
  LayerProperties properties() const override { return {.recurrent = inner_.recurrent()}; }
  HasTangent* tangent() override { return inner_.FirstWithoutTangent() == inner_.num_layers() ? this : nullptr; }
  HasStatistics* statistics() override { return inner_.has_statistics() ? this : nullptr; }
  Constrained* constraint() override;
  void SetContextAbove(const TimeContext& above) override { inner_.SetContextAbove(above); }
  void ResetStatistics() override { inner_.ResetStatistics(); }
  void AccumulateStatistics(Workspace& ws) override { inner_.AccumulateStatistics(ws.Child(0)); }
  void ListStatistics(std::vector<Parameter*>& list) override { inner_.ListStatistics(list); }
  void ListStillInputs(std::vector<StillInputs>& list) const override { inner_.ListStillUnits(list); }
  void FreezeStatistics() override { inner_.FreezeStatistics(); }
  void AfterSteps(int64_t first, int64_t count) override { inner_.AfterSteps(first, count); }
  Config ToConfig() const override;

 protected:
  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const override;
  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                  GradientSink& sink) override;
  void DoTangent(const ExecContext& ctx, ConstMatrixView dx, std::span<const float> direction, Workspace& ws,
                 MatrixView dy) override;

 private:
  int64_t InputRow(const ExecContext& ctx, int64_t output_row) const;

  double scale_;
  Network inner_;
  uint64_t index_;
};

}  // namespace antiphon::nn
