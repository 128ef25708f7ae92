#include "nn/shifted_product.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/elementwise.h"
#include "kernels/linear_combinations.h"

namespace antiphon::nn {
namespace {

using Args = LinearCombinationsArgs;
constexpr int kOutputs = MinimalFilter::kOutputs;
constexpr int kMostTaps = MinimalFilter::kMostTaps;
constexpr int kMostProducts = MinimalFilter::kMostProducts;

enum Slot { kInputs };

// Memory of a thread between the steps of one product, and of the factors that a layer hands on.
struct Memory {
  Matrix of_groups, scaled;
  PaddedMatrix<float> derivatives;  // read transposed
};
Memory& OwnMemory() {
  thread_local Memory memory;
  return memory;
}
MatrixView Sized(Matrix& matrix, int64_t rows, int64_t cols) {
  matrix.Resize(rows, cols);
  return matrix;
}

int Team() { return omp_in_parallel() != 0 ? 1 : omp_get_max_threads(); }

// The products of one pass as tasks for a team: equal parts of the rows of each, and, first of all, the plain product
// of the lone rows. Who computes what does not matter to the result.
class Tasks {
 public:
  Tasks(int products, int64_t rows, int taps, int64_t lone_rows, int team) : products_(products), rows_(rows) {
    constexpr int64_t kMostParts = 8, kPackedRows = 48;  // what packing the other factor costs, in rows
    const int64_t lone = lone_rows > 0 ? taps * (lone_rows + kPackedRows) : 0;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int64_t parts = 1; parts <= std::min(rows, kMostParts); ++parts) {
      const int64_t one = (rows + parts - 1) / parts + kPackedRows;
      const int64_t time = products * parts * one + lone + one * (team - 1);
      if (time < least) parts_ = parts;
      least = std::min(least, time);
    }
  }
  int64_t count() const { return 1 + products_ * parts_; }
  /// Calls lone() for task 0, else body(product, first row, rows).
  template <class Lone, class Body>
  void Run(int64_t task, Lone lone, Body body) const {
    if (task == 0) return lone();
    const int64_t part = (task - 1) % parts_, first = rows_ * part / parts_;
    body(static_cast<int>((task - 1) / parts_), first, rows_ * (part + 1) / parts_ - first);
  }

 private:
  int products_;
  int64_t rows_;
  int64_t parts_ = 1;
};

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

std::optional<ShiftedProduct> ShiftedProduct::For(const ShiftedBlocks& blocks, int streams, ConstMatrixView x,
                                                  int64_t whole_outputs) {
  if (blocks.blocks < MinimalFilter::kLeastTaps || blocks.blocks > MinimalFilter::kMostTaps) return std::nullopt;
  const int64_t cols = x.cols() / blocks.blocks;
  const ShiftedProduct way(MinimalFilter::OfTaps(blocks.blocks), x.rows(), int64_t{blocks.frames} * streams, cols);
  // Multiplications that are saved for each value that the sums before and after the products read or write. Measured:
  // from about 60 on the products gain more than the sums cost.
  constexpr double kLeastSaved = 70;
  const auto in = static_cast<double>(cols), out = static_cast<double>(whole_outputs);
  const auto groups = static_cast<double>(way.groups_);
  const double saved = (static_cast<double>(way.first_lone_) * way.filter_->taps - groups * way.products()) * in * out;
  const double sums = way.products() * (groups * (in + out) + in * out);
  if (saved < kLeastSaved * sums) return std::nullopt;
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
  const MatrixView of_groups = Sized(OwnMemory().of_groups, products() * groups_, y.cols());
  weight.FilteredValue(*filter_, 1);  // by the whole team, not within it
  const bool biased = epilogue.bias != nullptr;
  std::array<float, kOutputs*(kMostProducts + 1)> matrix{};  // the bias is one more product
  for (int i = 0; i < kOutputs; ++i) {
    float* row = std::copy_n(filter_->to_outputs.data() + i * products(), products(),
                             matrix.data() + i * (products() + (biased ? 1 : 0)));
    if (biased) *row = 1;
  }
  const int team = Team();
  const Tasks tasks(products(), groups_, filter_->taps, lone_rows(), team);
#pragma omp parallel num_threads(team)
  {
    Combination from(filter_->of_inputs.data(), products(), products());
#pragma omp for schedule(static)
    for (int64_t g = 0; g < groups_; ++g) FromInputs(from, x, g, inputs);
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < tasks.count(); ++task) {
      tasks.Run(
          task,
          [&] {
            if (lone_rows() > 0) Gemm(Transpose::kNo, Lone(x), Transpose::kYes, weight.value, Lone(y), epilogue);
          },
          [&](int p, int64_t first, int64_t rows) {
            first += p * groups_;
            Gemm(Transpose::kNo, inputs.Rows(first, rows), Transpose::kYes, weight.FilteredValue(*filter_, p),
                 of_groups.Rows(first, rows));
          });
    }
    Combination to(matrix.data(), kOutputs, products() + (biased ? 1 : 0));
    if (biased) to.In(products()) = epilogue.bias;
#pragma omp for schedule(static)
    for (int64_t g = 0; g < groups_; ++g) ToOutputs(to, of_groups, g, y);
  }
  const MatrixView grouped = y.Rows(0, first_lone_);
  if (epilogue.activation != Activation::kNone) ActivationForward(epilogue.activation, grouped, grouped);
}

ShiftedFactors ShiftedProduct::Backward(ConstMatrixView dy, const Parameter& weight, Workspace& ws,
                                        MatrixView dx) const {
  PaddedMatrix<float>& memory = OwnMemory().derivatives;
  memory.Resize(products() * groups_, dy.cols());
  const MatrixView derivatives = memory;
  const bool wanted = dx.data() != nullptr;
  const MatrixView of_groups = Sized(OwnMemory().of_groups, wanted ? products() * groups_ : 0, block_cols_);
  if (wanted) weight.FilteredValue(*filter_, 1);  // as above
  const int team = Team();
  const Tasks tasks(products(), groups_, filter_->taps, lone_rows(), team);
#pragma omp parallel num_threads(team)
  {
    Combination from(filter_->of_outputs.data(), products(), kOutputs);
#pragma omp for schedule(static)
    for (int64_t g = 0; g < groups_; ++g) FromDerivatives(from, dy, g, derivatives);
    if (wanted) {
#pragma omp for schedule(dynamic, 1)
      for (int64_t task = 0; task < tasks.count(); ++task) {
        tasks.Run(
            task,
            [&] {
              if (lone_rows() > 0) Gemm(Transpose::kNo, Lone(dy), Transpose::kNo, weight.value, Lone(dx));
            },
            [&](int p, int64_t first, int64_t rows) {
              first += p * groups_;
              Gemm(Transpose::kNo, derivatives.Rows(first, rows), Transpose::kNo, weight.FilteredValue(*filter_, p),
                   of_groups.Rows(first, rows));
            });
      }
      Combination to(filter_->to_inputs.data(), products(), products());
#pragma omp for schedule(static)
      for (int64_t g = 0; g < groups_; ++g) ToInputDerivatives(to, of_groups, g, dx);
    }
  }
  return {this, ws.Float(kInputs), derivatives, 1.0f};
}

void ShiftedProduct::Gradient(const GradientFactors& factors, int64_t first_row, float accumulate,
                              MatrixView gradient) {
  const ShiftedFactors& shifted = *factors.shifted;
  const ShiftedProduct& way = *shifted.way;
  const int products = way.products(), taps = way.filter_->taps;
  const int64_t count = gradient.rows(), cols = way.block_cols_, groups = way.groups_;
  const bool lone = way.lone_rows() > 0;
  // What the lone rows give comes first, everything else is added to it.
  const float old = lone ? 1.0f : accumulate;
  const int inputs = products + (old != 0 ? taps : 0);
  std::array<float, size_t{kMostTaps} * Args::kMostInputs> matrix{};
  for (int k = 0; k < taps; ++k) {
    float* row = matrix.data() + k * inputs;
    for (int p = 0; p < products; ++p) {
      row[p] = shifted.scale * way.filter_->to_taps[static_cast<size_t>(k * products + p)];
    }
    if (old != 0) row[products + k] = old;
  }
  const MatrixView of_taps = Sized(OwnMemory().of_groups, products * count, cols);
  const MatrixView scaled = Sized(OwnMemory().scaled, way.lone_rows(), factors.x.cols());
  const int team = Team();
  const Tasks tasks(products, count, taps, way.lone_rows(), team);
#pragma omp parallel num_threads(team)
  {
#pragma omp for schedule(dynamic, 1)
    for (int64_t task = 0; task < tasks.count(); ++task) {
      tasks.Run(
          task,
          [&] {
            if (!lone) return;
            Scale(shifted.scale, way.Lone(factors.x), scaled);
            Gemm(Transpose::kYes, way.Lone(factors.g).Cols(first_row, count), Transpose::kNo, scaled, gradient,
                 {.accumulate = accumulate});
          },
          [&](int p, int64_t first, int64_t rows) {
            Gemm(Transpose::kYes, shifted.derivatives.Rows(p * groups, groups).Cols(first_row + first, rows),
                 Transpose::kNo, shifted.inputs.Rows(p * groups, groups), of_taps.Rows(p * count + first, rows));
          });
    }
    Combination sum(matrix.data(), taps, inputs);
#pragma omp for schedule(static)
    for (int64_t r = 0; r < count; ++r) {
      for (int p = 0; p < products; ++p) sum.In(p) = of_taps.Row(p * count + r).data();
      for (int k = 0; k < taps; ++k) {
        sum.Out(k) = gradient.Row(r).data() + k * cols;
        if (old != 0) sum.In(products + k) = sum.Out(k);
      }
      sum.Run(cols);
    }
  }
}

}  // namespace antiphon::nn
