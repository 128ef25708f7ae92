// A convolution's three products with half of the multiplications.
//
// For filters over three neighbouring positions: four neighbouring outputs form a group, which minimal filtering
// (math/minimal_filter.h) computes from 6 products instead of 12; offsets in time lie side by side in the products'
// depth. The derivative with respect to the input is a convolution of the output's derivative with the filters turned
// round, and takes the same way. Positions beyond the ends, and groups that reach beyond the last position, are zeros.
// In fp32 only.
//
// Shapes, weights: as nn/layers/convolution.cc.
// Threads: the caller's compute threads; results do not depend on their number. One Workspace per thread.
#pragma once

#include "math/gemm.h"
#include "nn/exec_context.h"
#include "nn/layers/convolution_geometry.h"
#include "nn/workspace.h"

namespace antiphon::nn {

class FilteredConvolution {
 public:
  /// Whether this way is known for the convolution, and saves a third of the multiplications or more.
  static bool Pays(const ConvolutionGeometry& geometry);
  explicit FilteredConvolution(const ConvolutionGeometry& geometry) : geometry_(geometry) {}

  void Forward(const ExecContext& ctx, ConstMatrixView x, ConstMatrixView weight, const GemmEpilogue& epilogue,
               Workspace& ws, MatrixView y) const;
  void InputDerivative(const ExecContext& ctx, ConstMatrixView dy, ConstMatrixView weight, Workspace& ws,
                       MatrixView dx) const;
  void Gradient(const ExecContext& ctx, ConstMatrixView x, ConstMatrixView dy, Workspace& ws, MatrixView weight,
                MatrixView bias) const;

 private:
  // One side of the layer: its values per position and its positions.
  struct Side {
    int64_t channels = 0;
    int64_t height = 0;
    int64_t groups() const;
  };
  // A convolution of `from` that gives `to`: output position 0 begins at position `first`; offset k of output row r
  // sees row r + direction · ShiftOf(k).
  struct Pass {
    Side from, to;
    int64_t first = 0;
    int direction = 1;
  };

  Side Input() const { return {geometry_.options.channels, geometry_.height()}; }
  Side Output() const { return {geometry_.options.filters, geometry_.out_height()}; }
  int64_t ShiftOf(const ExecContext& ctx, int offset) const;
  int64_t BlockRows(const Pass& pass, int64_t rows) const;
  void Gather(const ExecContext& ctx, const Pass& pass, ConstMatrixView from, int64_t first, int64_t count,
              MatrixView to) const;
  static void ToOutputs(const Pass& pass, ConstMatrixView sums, const float* bias, MatrixView to);
  static void FromOutputs(const Pass& pass, ConstMatrixView dy, MatrixView to);
  void Run(const ExecContext& ctx, const Pass& pass, ConstMatrixView from, Transpose transpose, ConstMatrixView taps,
           const GemmEpilogue& epilogue, Workspace& ws, MatrixView to) const;

  const ConvolutionGeometry& geometry_;
};

}  // namespace antiphon::nn
