#include "nn/shifted_product.h"

#include <algorithm>
#include <array>

#include "base/compute_threads.h"
#include "kernels/elementwise.h"
#include "kernels/linear_combinations.h"
#include "kernels/parallel.h"

namespace antiphon::nn {
namespace {

using Args = LinearCombinationsArgs;
constexpr int kOutputs = MinimalFilter::kOutputs;
constexpr int kMostTaps = MinimalFilter::kMostTaps;
constexpr int kMostProducts = MinimalFilter::kMostProducts;

enum ShiftSlot { kInputs };

// Memory of a thread between the steps of one product, and of the factors that a layer hands on.
struct Memory {
  Matrix of_groups, scaled;
  PaddedMatrix<float> derivatives;  // read transposed
};
Memory& OwnMemory() {
  thread_local Memory memory;
  return memory;
}
MatrixView SizedIn(Matrix& matrix, int64_t rows, int64_t cols) {
  matrix.Resize(rows, cols);
  return matrix;
}

// Calls body(r, combination) for all rows; a combination is one thread's at a time.
template <class Combination, class Body>
void ShareRows(int64_t rows, int64_t values_per_row, const Combination& combination, Body body) {
  ParallelRanges(rows, values_per_row, 1, [&](int64_t first, int64_t last) {
    Combination own = combination;
    for (int64_t r = first; r < last; ++r) body(r, own);
  });
}

struct Piece {
  int64_t first_row, rows, first_col, cols;
};

MatrixView In(MatrixView matrix, const Piece& piece) {
  return matrix.Rows(piece.first_row, piece.rows).Cols(piece.first_col, piece.cols);
}

// A matrix in pieces that one thread each computes. How it is cut depends on its shape alone: products of other shapes
// may have other bits.
class Cut {
 public:
  Cut(int64_t rows, int64_t cols)
      : rows_(rows), cols_(cols), down_((rows + 511) / 512), across_(std::max<int64_t>(1, cols / 512)) {}
  int64_t count() const { return down_ * across_; }
  Piece At(int64_t index) const {
    const int64_t r = index / across_, c = index % across_;
    const int64_t row = rows_ * r / down_, col = cols_ * c / across_;
    return {row, rows_ * (r + 1) / down_ - row, col, cols_ * (c + 1) / across_ - col};
  }

 private:
  int64_t rows_, cols_, down_, across_;
};

// The pieces of the lone rows' product, which are the larger ones, and of all others, cut alike.
template <class Lone, class Body>
void SharePieces(const Cut& lone, int products, const Cut& product, Lone lone_body, Body body) {
  ParallelPieces(lone.count() + products * product.count(), [&](int64_t i, int /*thread*/) {
    if (i < lone.count()) return lone_body(lone.At(i));
    const int64_t rest = i - lone.count();
    body(static_cast<int>(rest / product.count()), product.At(rest % product.count()));
  });
}

}  // namespace

// Linear combinations of one group's rows after another's.
class ShiftedProduct::Combination {
 public:
  Combination(const float* matrix, int outputs, int inputs) : inputs_(inputs), outputs_(outputs) {
    std::copy_n(matrix, inputs * outputs, coefficients_.begin());
  }
  const float*& In(int j) { return in_[static_cast<size_t>(j)]; }
  float*& Out(int i) { return out_[static_cast<size_t>(i)]; }
  /// Inputs from `count` on are not there: zeros.
  void LeaveOutInputs(int count) {
    for (int j = count; j < inputs_; ++j) {
      In(j) = In(0);
      for (int i = 0; i < outputs_; ++i) coefficients_[static_cast<size_t>(i * inputs_ + j)] = 0;
    }
  }
  void Run(int64_t size) const {
    LinearCombinations({.inputs = inputs_,
                        .outputs = outputs_,
                        .coefficients = coefficients_.data(),
                        .in = in_.data(),
                        .out = out_.data(),
                        .size = size});
  }

 private:
  int inputs_;
  int outputs_;
  std::array<float, Args::kMostInputs * kMostProducts> coefficients_{};
  std::array<const float*, Args::kMostInputs> in_{};
  std::array<float*, kMostProducts> out_{};
};

// Measured: between 60 and 70 the products begin to gain more than the sums cost.
double& ShiftedProduct::LeastSaved() {
  static double least = 70;
  return least;
}

std::optional<ShiftedProduct> ShiftedProduct::For(const ShiftedBlocks& blocks, int streams, ConstMatrixView x,
                                                  int64_t whole_outputs) {
  if (blocks.blocks < MinimalFilter::kLeastTaps || blocks.blocks > MinimalFilter::kMostTaps) return std::nullopt;
  const int64_t cols = x.cols() / blocks.blocks;
  const ShiftedProduct way(MinimalFilter::OfTaps(blocks.blocks), x.rows(), int64_t{blocks.frames} * streams, cols);
  const auto in = static_cast<double>(cols), out = static_cast<double>(whole_outputs);
  const auto groups = static_cast<double>(way.groups_);
  const double saved = (static_cast<double>(way.first_lone_) * way.filter_->taps - groups * way.products()) * in * out;
  const double sums = way.products() * (groups * (in + out) + in * out);
  if (saved <= LeastSaved() * sums) return std::nullopt;
  return way;
}

// Groups of a run of kOutputs · shift rows begin one row after the other. A last run that is not full is left alone if
// its groups need more products than its rows.
ShiftedProduct::ShiftedProduct(const MinimalFilter& filter, int64_t rows, int64_t shift_rows, int64_t block_cols)
    : filter_(&filter), rows_(rows), shift_rows_(shift_rows), block_cols_(block_cols) {
  const int64_t run = kOutputs * shift_rows;
  const int64_t whole = rows / run, rest = rows % run;
  const bool grouped = rest > 0 && filter.products * std::min(rest, shift_rows) <= filter.taps * rest;
  groups_ = whole * shift_rows + (grouped ? std::min(rest, shift_rows) : 0);
  first_lone_ = grouped ? rows : whole * run;
}

ShiftedProduct::Group ShiftedProduct::GroupAt(int64_t index) const {
  const int64_t first = index / shift_rows_ * kOutputs * shift_rows_ + index % shift_rows_;
  const int64_t rows = (rows_ - first + shift_rows_ - 1) / shift_rows_;
  return {first, static_cast<int>(std::min<int64_t>(kOutputs, rows))};
}

// Calls body(j, where) for the inputs j of a group that are there: the first blocks of its rows, then the further ones
// of its last row.
template <class Matrix, class Body>
void ShiftedProduct::ForInputs(const Group& group, const Matrix& x, Body body) const {
  for (int j = 0; j < group.rows; ++j) body(j, x.Row(group.first + j * shift_rows_).data());
  auto* last = x.Row(group.first + (group.rows - 1) * shift_rows_).data();
  for (int k = 1; k < filter_->taps; ++k) body(group.rows - 1 + k, last + k * block_cols_);
}

void ShiftedProduct::FromInputs(Combination& whole, ConstMatrixView x, int64_t g, MatrixView to) const {
  const Group group = GroupAt(g);
  const auto run = [&](Combination& sum) {
    ForInputs(group, x, [&](int j, const float* in) { sum.In(j) = in; });
    sum.LeaveOutInputs(group.rows + filter_->taps - 1);
    for (int p = 0; p < products(); ++p) sum.Out(p) = to.Row(p * groups_ + g).data();
    sum.Run(block_cols_);
  };
  if (group.rows == kOutputs) return run(whole);
  Combination part(filter_->of_inputs.data(), products(), products());
  run(part);
}

void ShiftedProduct::FromDerivatives(Combination& whole, ConstMatrixView dy, int64_t g, MatrixView to) const {
  const Group group = GroupAt(g);
  const auto run = [&](Combination& sum) {
    for (int j = 0; j < group.rows; ++j) sum.In(j) = dy.Row(group.first + j * shift_rows_).data();
    sum.LeaveOutInputs(group.rows);
    for (int p = 0; p < products(); ++p) sum.Out(p) = to.Row(p * groups_ + g).data();
    sum.Run(dy.cols());
  };
  if (group.rows == kOutputs) return run(whole);
  Combination part(filter_->of_outputs.data(), products(), kOutputs);
  run(part);
}

void ShiftedProduct::ToOutputs(Combination& sum, ConstMatrixView of_groups, int64_t g, MatrixView y) const {
  const Group group = GroupAt(g);
  for (int p = 0; p < products(); ++p) sum.In(p) = of_groups.Row(p * groups_ + g).data();
  for (int i = 0; i < kOutputs; ++i) {
    sum.Out(i) = i < group.rows ? y.Row(group.first + i * shift_rows_).data() : nullptr;
  }
  sum.Run(y.cols());
}

// What belongs to a frame goes to one of its copies, the others get zeros.
void ShiftedProduct::ToInputDerivatives(Combination& sum, ConstMatrixView of_groups, int64_t g, MatrixView dx) const {
  const Group group = GroupAt(g);
  for (int p = 0; p < products(); ++p) {
    sum.In(p) = of_groups.Row(p * groups_ + g).data();
    sum.Out(p) = nullptr;
  }
  ForInputs(group, dx, [&](int j, float* out) { sum.Out(j) = out; });
  sum.Run(block_cols_);
  for (int j = 0; j + 1 < group.rows; ++j) {
    std::fill_n(dx.Row(group.first + j * shift_rows_).data() + block_cols_, dx.cols() - block_cols_, 0.0f);
  }
}

void ShiftedProduct::Forward(ConstMatrixView x, const Parameter& weight, const GemmEpilogue& epilogue, Workspace& ws,
                             MatrixView y) const {
  const MatrixView inputs = ws.Float(kInputs, products() * groups_, block_cols_);
  const MatrixView of_groups = SizedIn(OwnMemory().of_groups, products() * groups_, y.cols());
  weight.FilteredValue(*filter_, 1);  // made before threads share it
  Combination from(filter_->of_inputs.data(), products(), products());
  ShareRows(groups_, products() * block_cols_, from,
            [&](int64_t g, Combination& own) { FromInputs(own, x, g, inputs); });
  SharePieces(
      Cut(lone_rows(), y.cols()), products(), Cut(groups_, y.cols()),
      [&](const Piece& piece) {
        GemmEpilogue its = epilogue;
        if (its.bias != nullptr) its.bias += piece.first_col;
        Gemm(Transpose::kNo, Lone(x).Rows(piece.first_row, piece.rows), Transpose::kYes,
             weight.value.Rows(piece.first_col, piece.cols), In(Lone(y), piece), its);
      },
      [&](int p, const Piece& piece) {
        Gemm(Transpose::kNo, Of(inputs, p).Rows(piece.first_row, piece.rows), Transpose::kYes,
             weight.FilteredValue(*filter_, p).Rows(piece.first_col, piece.cols), In(Of(of_groups, p), piece));
      });
  const bool biased = epilogue.bias != nullptr;
  Combination to(biased ? filter_->to_biased_outputs.data() : filter_->to_outputs.data(), kOutputs,
                 products() + (biased ? 1 : 0));
  if (biased) to.In(products()) = epilogue.bias;
  ShareRows(groups_, products() * y.cols(), to, [&](int64_t g, Combination& own) { ToOutputs(own, of_groups, g, y); });
  const MatrixView grouped = y.Rows(0, first_lone_);
  if (epilogue.activation != Activation::kNone) ActivationForward(epilogue.activation, grouped, grouped);
}

ShiftedFactors ShiftedProduct::Backward(ConstMatrixView dy, const Parameter& weight, Workspace& ws,
                                        MatrixView dx) const {
  PaddedMatrix<float>& memory = OwnMemory().derivatives;
  memory.Resize(products() * groups_, dy.cols());
  const MatrixView derivatives = memory;
  const bool wanted = dx.data() != nullptr;
  const MatrixView of_groups = SizedIn(OwnMemory().of_groups, wanted ? products() * groups_ : 0, block_cols_);
  if (wanted) weight.FilteredValue(*filter_, 1);  // as above
  Combination from(filter_->of_outputs.data(), products(), kOutputs);
  ShareRows(groups_, products() * dy.cols(), from,
            [&](int64_t g, Combination& own) { FromDerivatives(own, dy, g, derivatives); });
  const ShiftedFactors factors{this, ws.Float(kInputs), derivatives, 1.0f};
  if (!wanted) return factors;
  SharePieces(
      Cut(lone_rows(), dx.cols()), products(), Cut(groups_, block_cols_),
      [&](const Piece& piece) {
        Gemm(Transpose::kNo, Lone(dy).Rows(piece.first_row, piece.rows), Transpose::kNo,
             weight.value.Cols(piece.first_col, piece.cols), In(Lone(dx), piece));
      },
      [&](int p, const Piece& piece) {
        Gemm(Transpose::kNo, Of(derivatives, p).Rows(piece.first_row, piece.rows), Transpose::kNo,
             weight.FilteredValue(*filter_, p).Cols(piece.first_col, piece.cols), In(Of(of_groups, p), piece));
      });
  Combination to(filter_->to_inputs.data(), products(), products());
  ShareRows(groups_, products() * block_cols_, to,
            [&](int64_t g, Combination& own) { ToInputDerivatives(own, of_groups, g, dx); });
  return factors;
}

// What the lone rows give comes first, and everything else is added to it.
void ShiftedProduct::Gradient(const GradientFactors& factors, int64_t first_row, float accumulate,
                              MatrixView gradient) {
  const ShiftedFactors& shifted = *factors.shifted;
  const ShiftedProduct& way = *shifted.way;
  const int64_t rows = gradient.rows(), cols = way.block_cols_;
  const bool lone = way.lone_rows() > 0;
  const ConstMatrixView lone_g = way.Lone(factors.g).Cols(first_row, rows), lone_x = way.Lone(factors.x);
  const MatrixView scaled = SizedIn(OwnMemory().scaled, lone_x.rows(), lone_x.cols());
  if (lone) Scale(shifted.scale, lone_x, scaled);
  const MatrixView of_taps = SizedIn(OwnMemory().of_groups, way.products() * rows, cols);
  SharePieces(
      Cut(lone ? rows : 0, gradient.cols()), way.products(), Cut(rows, cols),
      [&](const Piece& piece) {
        Gemm(Transpose::kYes, lone_g.Cols(piece.first_row, piece.rows), Transpose::kNo,
             ConstMatrixView(scaled).Cols(piece.first_col, piece.cols), In(gradient, piece),
             {.accumulate = accumulate});
      },
      [&](int p, const Piece& piece) {
        Gemm(Transpose::kYes, way.Of(shifted.derivatives, p).Cols(first_row + piece.first_row, piece.rows),
             Transpose::kNo, way.Of(shifted.inputs, p).Cols(piece.first_col, piece.cols),
             In(of_taps.Rows(p * rows, rows), piece));
      });
  way.ToTaps(of_taps, shifted.scale, lone ? 1.0f : accumulate, gradient);
}

// gradient = scale · the taps' gradient + old · gradient.
void ShiftedProduct::ToTaps(ConstMatrixView of_taps, float scale, float old, MatrixView gradient) const {
  const int taps = filter_->taps, inputs = products() + (old != 0 ? taps : 0);
  std::array<float, size_t{kMostTaps} * Args::kMostInputs> matrix{};
  for (int k = 0; k < taps; ++k) {
    float* row = matrix.data() + k * inputs;
    for (int p = 0; p < products(); ++p) row[p] = scale * filter_->to_taps[static_cast<size_t>(k * products() + p)];
    if (old != 0) row[products() + k] = old;
  }
  Combination sum(matrix.data(), taps, inputs);
  ShareRows(gradient.rows(), gradient.cols(), sum, [&](int64_t r, Combination& own) {
    for (int p = 0; p < products(); ++p) own.In(p) = of_taps.Row(p * gradient.rows() + r).data();
    for (int k = 0; k < taps; ++k) {
      own.Out(k) = gradient.Row(r).data() + k * block_cols_;
      if (old != 0) own.In(products() + k) = own.Out(k);
    }
    own.Run(block_cols_);
  });
}

}  // namespace antiphon::nn
