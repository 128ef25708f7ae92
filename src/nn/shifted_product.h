// The products of a fully connected layer whose input is spliced from neighbouring frames, with about half of the
// multiplications.
//
// If the blocks of columns of x are shifted copies of one another, every output is a short filter over frames with
// matrices as taps: y_t = Σ_k W_k·x_{t + k·shift}. Four outputs that lie `frames` apart form a group, and minimal
// filtering (math/minimal_filter.h) computes them from 5 or 6 products instead of 8 or 12; likewise the derivatives
// with respect to inputs and weights. Rows that fill no group well stand alone at the end and take the plain product.
// In fp32 only. An output is rounded by the size of the largest frame of its group, and a value that is not finite
// reaches the whole group.
//
// Shapes: x [rows, blocks·C], y [rows, N], W [N, blocks·C]; a product p of all groups is rows p·groups() … of a matrix.
// The derivative with respect to x is right where the copies are added up, which is all that a splice asks for; its
// single columns are not those of the plain product.
// Threads: the caller's compute threads; products are cut by shapes alone, so that results do not depend on their
// number. One Workspace per thread. What a product throws reaches the caller.
#pragma once

#include <optional>

#include "math/gemm.h"
#include "math/minimal_filter.h"
#include "nn/gradient_sink.h"
#include "nn/shifted_blocks.h"
#include "nn/workspace.h"

namespace antiphon::nn {

class ShiftedProduct;

/// The transformed factors of the weights' gradient: what GradientFactors::shifted leads to.
struct ShiftedFactors {
  const ShiftedProduct* way = nullptr;
  ConstMatrixView inputs;       // [products · groups, C]
  ConstMatrixView derivatives;  // [products · groups, N]
  float scale = 1.0f;           // multiplies the gradient
};

class ShiftedProduct {
 public:
  /// The way to compute an input of that shape; nothing where the plain product is no slower. `whole_outputs`: those
  /// that all ranks hold together, so that they decide alike.
  static std::optional<ShiftedProduct> For(const ShiftedBlocks& blocks, int streams, ConstMatrixView x,
                                           int64_t whole_outputs);

  /// How many multiplications must be saved for each value that the sums before and after the products read or write.
  /// For tests alone, which set 0 before anything runs, so that small networks come this way too.
  static double& LeastSaved();

  /// y = x·Wᵀ with what `epilogue` adds (no accumulation). Keeps in `ws` what Backward needs.
  void Forward(ConstMatrixView x, const Parameter& weight, const GemmEpilogue& epilogue, Workspace& ws,
               MatrixView y) const;

  /// The factors of the weights' gradient, valid until this thread makes others; overwrites dx unless it is empty.
  ShiftedFactors Backward(ConstMatrixView dy, const Parameter& weight, Workspace& ws, MatrixView dx) const;

  /// As FactorProduct for the plain factors, times factors.shifted->scale.
  static void Gradient(const GradientFactors& factors, int64_t first_row, float accumulate, MatrixView gradient);

 private:
  class Combination;
  // Where the rows of a group lie.
  struct Group {
    int64_t first;
    int rows;
  };

  ShiftedProduct(const MinimalFilter& filter, int64_t rows, int64_t shift_rows, int64_t block_cols);

  int products() const { return filter_->products; }
  int64_t groups() const { return groups_; }
  int64_t lone_rows() const { return rows_ - first_lone_; }
  ConstMatrixView Lone(ConstMatrixView m) const { return m.Rows(first_lone_, lone_rows()); }
  MatrixView Lone(MatrixView m) const { return m.Rows(first_lone_, lone_rows()); }
  // The rows of product number p.
  ConstMatrixView Of(ConstMatrixView all, int p) const { return all.Rows(p * groups_, groups_); }
  MatrixView Of(MatrixView all, int p) const { return all.Rows(p * groups_, groups_); }
  Group GroupAt(int64_t index) const;
  template <class Matrix, class Body>
  void ForInputs(const Group& group, const Matrix& x, Body body) const;
  // Between the rows of group number g and its rows in the products' factors.
  void FromInputs(Combination& whole, ConstMatrixView x, int64_t g, MatrixView to) const;
  void FromDerivatives(Combination& whole, ConstMatrixView dy, int64_t g, MatrixView to) const;
  void ToOutputs(Combination& sum, ConstMatrixView of_groups, int64_t g, MatrixView y) const;
  void ToInputDerivatives(Combination& sum, ConstMatrixView of_groups, int64_t g, MatrixView dx) const;
  void ToTaps(ConstMatrixView of_taps, float scale, float old, MatrixView gradient) const;

  const MinimalFilter* filter_;
  int64_t rows_;
  int64_t shift_rows_;
  int64_t block_cols_;
  int64_t groups_ = 0;
  int64_t first_lone_ = 0;
};

}  // namespace antiphon::nn
