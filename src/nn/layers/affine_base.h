// What fully connected layers share whose product sees something else than the stored weights and inputs: rounded ones,
// signs.
//
// Forward is y = Ŵ·x̂ + b. Backward is straight-through: the gradient with respect to Ŵ is taken for that with respect
// to W, so that the rounding's derivative, zero almost everywhere, does not stop the learning; likewise for x, except
// where a layer says otherwise.
// Shapes, threads, errors: as nn/layer.h.
// Source: Bengio, Léonard, Courville, Estimating or propagating gradients through stochastic neurons, 2013.
#pragma once

#include <vector>

#include "nn/layer.h"

namespace antiphon::nn {

/// The number of outputs: `dim`, or what the task says if that is 0. UsageError if neither says.
int CheckedDim(const LayerArgs& args, int dim);
/// Normal with standard deviation `scale`/√in. Every row has a stream of its own, so that the values depend neither
/// on the number of threads nor on who holds it; the view begins with row `first_row` of the layer.
void DrawWeights(double scale, uint64_t seed, MatrixView weight, int64_t first_row = 0);

class AffineBase : public Layer {
 public:
  std::span<Parameter* const> parameters() override { return trained_; }
  Activation* absorbed_activation() override { return &activation_; }

 protected:
  /// `dim` 0: what the task says. Weights are drawn as those of `affine`.
  AffineBase(const LayerArgs& args, int dim);

  void DoForward(const ExecContext& ctx, ConstMatrixView x, MatrixView y, Workspace& ws) const override;
  void DoBackward(const ExecContext& ctx, ConstMatrixView dy, Workspace& ws, MatrixView dx,
                  GradientSink& sink) override;

  /// Whether Ŵ is not W, x̂ not x. The same from Forward to Backward.
  virtual bool changes_weight() const = 0;
  virtual bool changes_input() const = 0;
  virtual void MakeWeight(MatrixView to) const = 0;
  virtual void MakeInput(ConstMatrixView x, MatrixView to) const = 0;
  /// dx = dL/dx̂ becomes dL/dx.
  virtual void PassInput(ConstMatrixView x, MatrixView dx) const = 0;

  Parameter weight_;
  Parameter bias_;

 private:
  enum Slot { kWeight, kInput };
  enum HalfSlot { kHalfWeight, kHalfInput };
  enum DerivativeSlot { kDerivative };
  ConstBf16View HalfWeight(Workspace& ws) const;

  Activation activation_ = Activation::kNone;
  std::vector<Parameter*> trained_ = {&weight_, &bias_};
};

}  // namespace antiphon::nn
