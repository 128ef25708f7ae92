// From a panel's sums to the next layer's rows: scales, bias, activation, format. What all affine steps end with.
//
// Threads: read-only once made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "infer/rows.h"
#include "kernels/dense_epilogue.h"
#include "kernels/dense_tile.h"

namespace antiphon::infer {

/// What the next step reads: its format, and for 8 bits the scale that is known before the values are.
struct OutputFormat {
  DataType type = DataType::kFloat32;
  float scale = 1.0F;  // kInt8: x ≈ scale · (q − zero)
  int32_t zero = 0;
};

/// Bytes of a value in a row.
constexpr int64_t ValueBytes(DataType type) {
  return type == DataType::kFloat32 ? 4 : (type == DataType::kBf16 ? 2 : 1);
}

constexpr int64_t PanelsOf(int64_t outputs) { return (outputs + kPanelOutputs - 1) / kPanelOutputs; }

/// The format that a layer with this activation writes if the next one reads `wanted`: values in 0 … 1 need nobody to
/// look at them, others without a known scale are rounded when the whole row is known.
OutputFormat WritableFormat(const OutputFormat& wanted, Activation activation);

class PanelOutput {
 public:
  PanelOutput() = default;
  /// Sums are int32 (`sum_type` kInt8) or float (kFloat32). `bias` empty: none.
  PanelOutput(DataType sum_type, int64_t out_dim, std::span<const float> bias, Isa isa);

  int64_t out_dim() const { return out_dim_; }
  int64_t num_panels() const { return PanelsOf(out_dim_); }
  /// Of integer sums: scale of each output's weights, and their sum; whole panels.
  std::span<float> scales() { return scales_; }
  std::span<const float> scales() const { return scales_; }
  std::span<int32_t> weight_sums() { return weight_sums_; }
  std::span<const int32_t> weight_sums() const { return weight_sums_; }
  std::span<const float> bias() const { return bias_; }

  /// Before the panels of a batch: writes the scales of an 8-bit format. Rows of floats are written as such, here and
  /// in Store, whatever `format` says.
  static void Begin(const OutputFormat& format, const Rows& out);
  /// `sums` [rows, 64] of `panel` for rows first_row …; `in` has the inputs' scales (integer sums only).
  /// Rows with factors (out.factors) are multiplied by them behind the activation.
  void Store(const void* sums, int64_t panel, int first_row, int rows, const Rows& in, Activation activation,
             const OutputFormat& format, const Rows& out) const;

 private:
  DataType sum_type_ = DataType::kFloat32;
  int64_t out_dim_ = 0;
  DenseEpilogueOp::Function epilogue_ = nullptr;
  std::vector<float> bias_, scales_;
  std::vector<int32_t> weight_sums_;
};

}  // namespace antiphon::infer
