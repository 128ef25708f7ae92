#include "nn/layers/filtered_convolution.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/compute_threads.h"
#include "kernels/elementwise.h"
#include "kernels/linear_combinations.h"
#include "kernels/parallel.h"
#include "kernels/reductions.h"
#include "math/minimal_filter.h"

namespace antiphon::nn {
namespace {

constexpr int kTaps = 3;
constexpr int kFilterOutputs = MinimalFilter::kOutputs;
constexpr int kProducts = kFilterOutputs + kTaps - 1;
constexpr int64_t kFilteredBlockValues = 1 << 17;  // of a product's factors: half a MiB, in a core's cache
constexpr int kFilteredSumGroups = 8;

enum FilterSlot { kTapFactors, kFactors, kProductSums, kWeightSums, kBiasSums };

const MinimalFilter& Filter() { return MinimalFilter::OfTaps(kTaps); }

// What stands beyond the ends.
const float* Zeros(int64_t count) {
  thread_local std::vector<float> zeros;
  if (std::ssize(zeros) < count) zeros.resize(static_cast<size_t>(count));
  return zeros.data();
}

// The factors of the taps, each [filters · offsets, channels] below the other. `row_of(f, k)`: where those of filter f
// and offset k go; `turned`: last tap first.
template <class RowOf>
void FilterTaps(const ConvolutionGeometry& geometry, ConstMatrixView weight, bool turned, RowOf row_of, MatrixView to) {
  const int64_t channels = geometry.options.channels, filters = weight.rows();
  const int64_t rows = filters * geometry.num_offsets();
  ParallelItems(filters, kProducts * rows * channels, [&](int64_t f) {
    for (int k = 0; k < geometry.num_offsets(); ++k) {
      std::array<const float*, kTaps> in{};
      std::array<float*, kProducts> out{};
      const float* taps = weight.Row(f).data() + k * geometry.window();
      for (int j = 0; j < kTaps; ++j) in[static_cast<size_t>(j)] = taps + (turned ? kTaps - 1 - j : j) * channels;
      float* first = to.data() + row_of(f, k) * channels;
      for (int p = 0; p < kProducts; ++p) out[static_cast<size_t>(p)] = first + p * rows * channels;
      LinearCombinations({.inputs = kTaps,
                          .outputs = kProducts,
                          .coefficients = Filter().of_taps.data(),
                          .in = in.data(),
                          .out = out.data(),
                          .size = channels});
    }
  });
}

// The weights' gradient from that of the factors.
void ToTaps(const ConvolutionGeometry& geometry, ConstMatrixView sums, MatrixView weight) {
  const int64_t channels = geometry.options.channels, filters = weight.rows();
  std::array<const float*, kProducts> in{};
  std::array<float*, kTaps> out{};
  for (int64_t f = 0; f < filters; ++f) {
    for (int64_t k = 0; k < geometry.num_offsets(); ++k) {
      for (int p = 0; p < kProducts; ++p) {
        in[static_cast<size_t>(p)] = sums.Row(p * filters + f).data() + k * channels;
      }
      for (int j = 0; j < kTaps; ++j) out[static_cast<size_t>(j)] = weight.Row(f).data() + (k * kTaps + j) * channels;
      LinearCombinations({.inputs = kProducts,
                          .outputs = kTaps,
                          .coefficients = Filter().to_taps.data(),
                          .in = in.data(),
                          .out = out.data(),
                          .size = channels});
    }
  }
}

}  // namespace

int64_t FilteredConvolution::Side::groups() const { return (height + kFilterOutputs - 1) / kFilterOutputs; }

bool FilteredConvolution::Pays(const ConvolutionGeometry& geometry) {
  // Fewer would leave the sums before and after the products most of the time; nor do sides gain whose last groups are
  // mostly empty.
  constexpr int kLeast = 32;
  const ConvolutionOptions& o = geometry.options;
  if (o.window != kTaps || o.stride != 1 || o.channels_first || std::min(o.channels, o.filters) < kLeast) return false;
  const FilteredConvolution way(geometry);
  const auto gains = [](const Side& side) { return 2 * kTaps * side.height >= 3 * kProducts * side.groups(); };
  return gains(way.Input()) && gains(way.Output());
}

int64_t FilteredConvolution::ShiftOf(const ExecContext& ctx, int offset) const {
  return int64_t{geometry_.context.left + geometry_.options.offsets[static_cast<size_t>(offset)]} * ctx.streams();
}

// As many as stay in a core's cache with their products, but not so many that a large team has nothing to do.
int64_t FilteredConvolution::BlockRows(const Pass& pass, int64_t rows) const {
  constexpr int64_t kFewestBlocks = 2 * kFilteredSumGroups;
  const int64_t depth = std::max(pass.from.channels * geometry_.num_offsets(), pass.to.channels);
  const int64_t fitting = kFilteredBlockValues / (kProducts * pass.to.groups() * depth);
  return std::clamp<int64_t>(rows / kFewestBlocks, 1, std::max<int64_t>(1, fitting));
}

// to [products · count · groups, offsets · channels].
void FilteredConvolution::Gather(const ExecContext& ctx, const Pass& pass, ConstMatrixView from, int64_t first,
                                 int64_t count, MatrixView to) const {
  const int64_t channels = pass.from.channels, groups = pass.to.groups();
  const float* const zeros = Zeros(channels);
  std::array<const float*, kProducts> in{};
  std::array<float*, kProducts> out{};
  for (int64_t r = 0; r < count; ++r) {
    for (int k = 0; k < geometry_.num_offsets(); ++k) {
      const int64_t row = first + r + pass.direction * ShiftOf(ctx, k);
      const bool there = row >= 0 && row < from.rows();
      const float* frame = there ? from.Row(row).data() : nullptr;
      for (int64_t g = 0; g < groups; ++g) {
        for (int p = 0; p < kProducts; ++p) {
          const int64_t at = pass.first + g * kFilterOutputs + p;
          in[static_cast<size_t>(p)] = there && at >= 0 && at < pass.from.height ? frame + at * channels : zeros;
          out[static_cast<size_t>(p)] = to.Row((p * count + r) * groups + g).data() + k * channels;
        }
        LinearCombinations({.inputs = kProducts,
                            .outputs = kProducts,
                            .coefficients = Filter().of_inputs.data(),
                            .in = in.data(),
                            .out = out.data(),
                            .size = channels});
      }
    }
  }
}

// `sums` as Gather leaves the factors; `to`: some of the rows.
void FilteredConvolution::ToOutputs(const Pass& pass, ConstMatrixView sums, const float* bias, MatrixView to) {
  const int64_t groups = pass.to.groups(), channels = pass.to.channels, part = to.rows() * groups;
  const bool biased = bias != nullptr;
  std::array<const float*, kProducts + 1> in{};
  std::array<float*, kFilterOutputs> out{};
  in[kProducts] = bias;
  for (int64_t n = 0; n < part; ++n) {
    for (int p = 0; p < kProducts; ++p) in[static_cast<size_t>(p)] = sums.Row(p * part + n).data();
    for (int i = 0; i < kFilterOutputs; ++i) {
      const int64_t at = n % groups * kFilterOutputs + i;
      out[static_cast<size_t>(i)] = at < pass.to.height ? to.Row(n / groups).data() + at * channels : nullptr;
    }
    LinearCombinations({.inputs = kProducts + (biased ? 1 : 0),
                        .outputs = kFilterOutputs,
                        .coefficients = biased ? Filter().to_biased_outputs.data() : Filter().to_outputs.data(),
                        .in = in.data(),
                        .out = out.data(),
                        .size = channels});
  }
}

// The other way, for derivatives.
void FilteredConvolution::FromOutputs(const Pass& pass, ConstMatrixView dy, MatrixView to) {
  const int64_t groups = pass.to.groups(), channels = pass.to.channels, part = dy.rows() * groups;
  const float* const zeros = Zeros(channels);
  std::array<const float*, kFilterOutputs> in{};
  std::array<float*, kProducts> out{};
  for (int64_t n = 0; n < part; ++n) {
    for (int i = 0; i < kFilterOutputs; ++i) {
      const int64_t at = n % groups * kFilterOutputs + i;
      in[static_cast<size_t>(i)] = at < pass.to.height ? dy.Row(n / groups).data() + at * channels : zeros;
    }
    for (int p = 0; p < kProducts; ++p) out[static_cast<size_t>(p)] = to.Row(p * part + n).data();
    LinearCombinations({.inputs = kFilterOutputs,
                        .outputs = kProducts,
                        .coefficients = Filter().of_outputs.data(),
                        .in = in.data(),
                        .out = out.data(),
                        .size = channels});
  }
}

void FilteredConvolution::Run(const ExecContext& ctx, const Pass& pass, ConstMatrixView from, Transpose transpose,
                              ConstMatrixView taps, const GemmEpilogue& epilogue, Workspace& ws, MatrixView to) const {
  const int64_t groups = pass.to.groups(), channels = pass.to.channels;
  const int64_t block = BlockRows(pass, to.rows()), rows = kProducts * block * groups,
                tap_rows = taps.rows() / kProducts;
  const MatrixView factors = ws.Float(kFactors, ComputeThreads() * rows, geometry_.num_offsets() * pass.from.channels);
  const MatrixView sums = ws.Float(kProductSums, ComputeThreads() * rows, channels);
  ParallelPieces((to.rows() + block - 1) / block, [&](int64_t b, int thread) {
    const int64_t first = b * block, count = std::min(block, to.rows() - first), part = count * groups;
    const int64_t own = thread * rows;
    Gather(ctx, pass, from, first, count, factors.Rows(own, kProducts * part));
    for (int p = 0; p < kProducts; ++p) {
      Gemm(Transpose::kNo, factors.Rows(own + p * part, part), transpose, taps.Rows(p * tap_rows, tap_rows),
           sums.Rows(own + p * part, part));
    }
    ToOutputs(pass, sums.Rows(own, kProducts * part), epilogue.bias, to.Rows(first, count));
    if (epilogue.activation == Activation::kNone) return;
    const MatrixView done = to.Rows(first, count);
    ActivationForward(epilogue.activation, done, done);
  });
}

void FilteredConvolution::Forward(const ExecContext& ctx, ConstMatrixView x, ConstMatrixView weight,
                                  const GemmEpilogue& epilogue, Workspace& ws, MatrixView y) const {
  const int64_t offsets = geometry_.num_offsets();
  const MatrixView taps = ws.Float(kTapFactors, kProducts * weight.rows(), offsets * geometry_.options.channels);
  FilterTaps(
      geometry_, weight, false, [&](int64_t f, int64_t k) { return f * offsets + k; }, taps);
  const Pass pass{.from = Input(), .to = Output(), .first = geometry_.first()};
  Run(ctx, pass, x, Transpose::kYes, taps, epilogue, ws, y);
}

void FilteredConvolution::InputDerivative(const ExecContext& ctx, ConstMatrixView dy, ConstMatrixView weight,
                                          Workspace& ws, MatrixView dx) const {
  const int64_t offsets = geometry_.num_offsets();
  const MatrixView taps = ws.Float(kTapFactors, kProducts * offsets * weight.rows(), geometry_.options.channels);
  FilterTaps(
      geometry_, weight, true, [&](int64_t f, int64_t k) { return k * weight.rows() + f; }, taps);
  const Pass pass{.from = Output(), .to = Input(), .first = 1 - kTaps - geometry_.first(), .direction = -1};
  Run(ctx, pass, dy, Transpose::kNo, taps, {}, ws, dx);
}

// Each group of consecutive blocks has its own sums.
void FilteredConvolution::Gradient(const ExecContext& ctx, ConstMatrixView x, ConstMatrixView dy, Workspace& ws,
                                   MatrixView weight, MatrixView bias) const {
  const Pass pass{.from = Input(), .to = Output(), .first = geometry_.first()};
  const int64_t groups = pass.to.groups(), filters = weight.rows(), channels = pass.from.channels;
  const int64_t offsets = geometry_.num_offsets();
  const int64_t block = BlockRows(pass, dy.rows()), rows = kProducts * block * groups;
  const int64_t blocks = (dy.rows() + block - 1) / block;
  const MatrixView factors = ws.Float(kFactors, ComputeThreads() * rows, offsets * channels);
  const MatrixView derivatives = ws.Float(kProductSums, ComputeThreads() * rows, filters);
  const MatrixView weights = ws.Float(kWeightSums, kFilteredSumGroups * kProducts * filters, offsets * channels);
  const MatrixView biases = ws.Float(kBiasSums, kFilteredSumGroups, filters);
  ParallelPieces(kFilteredSumGroups, [&](int64_t s, int thread) {
    const int64_t own = thread * rows;
    const MatrixView sums = weights.Rows(s * kProducts * filters, kProducts * filters), bias_sum = biases.Rows(s, 1);
    std::fill_n(sums.data(), sums.size(), 0.0f);
    std::fill_n(bias_sum.data(), filters, 0.0f);
    for (int64_t b = blocks * s / kFilteredSumGroups; b < blocks * (s + 1) / kFilteredSumGroups; ++b) {
      const int64_t first = b * block, count = std::min(block, dy.rows() - first), part = count * groups;
      Gather(ctx, pass, x, first, count, factors.Rows(own, kProducts * part));
      FromOutputs(pass, dy.Rows(first, count), derivatives.Rows(own, kProducts * part));
      for (int p = 0; p < kProducts; ++p) {
        Gemm(Transpose::kYes, derivatives.Rows(own + p * part, part), Transpose::kNo,
             factors.Rows(own + p * part, part), sums.Rows(p * filters, filters), {.accumulate = 1.0f});
      }
      // At the point 1 a group's derivatives are added up.
      ColumnSums(1.0f, derivatives.Rows(own + part, part), nullptr, 1.0f, bias_sum);
    }
  });
  for (int64_t s = 1; s < kFilteredSumGroups; ++s) {
    AddScaled(1.0f, weights.Rows(s * kProducts * filters, kProducts * filters), weights.Rows(0, kProducts * filters));
    AddScaled(1.0f, biases.Rows(s, 1), biases.Rows(0, 1));
  }
  std::copy_n(biases.data(), filters, bias.data());
  ToTaps(geometry_, weights.Rows(0, kProducts * filters), weight);
}

}  // namespace antiphon::nn
