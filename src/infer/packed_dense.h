// A weight matrix as the dense kernels read it: in panels of 64 outputs (kernels/dense_tile.h), packed once and shared
// by all streams.
//
// int8: per output row symmetric integers and a scale, by nn/quantize.h.
// Threads: read-only once made. Errors: UsageError for a layer that is too deep for exact int8 sums.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "infer/huge_buffer.h"
#include "infer/panel_output.h"
#include "infer/rows.h"
#include "kernels/dense_tile.h"
#include "nn/quantize.h"

namespace antiphon::infer {

class PackedDense {
 public:
  PackedDense() = default;
  /// `bias` empty: none.
  PackedDense(DataType type, ConstMatrixView weight, std::span<const float> bias, Isa isa);

  DataType type() const { return type_; }
  int64_t in_dim() const { return in_dim_; }
  int64_t out_dim() const { return output_.out_dim(); }
  int64_t num_panels() const { return output_.num_panels(); }
  /// Bytes of weights that one pass reads.
  int64_t bytes() const { return num_panels() * panel_bytes_; }

  /// out = activation(W · in + b) in the format that `out` has. `in` has the weights' type. Panels are shared among the
  /// the caller's compute threads; results do not depend on their number, nor on how many rows go together.
  void Run(const Rows& in, Activation activation, const OutputFormat& format, const Rows& out) const;
  /// Instruction set of the kernel in use.
  const std::string& variant() const { return variant_; }

  /// Writes the in_dim weights of an output of an 8-bit matrix.
  void UnpackInt8(int64_t output, int8_t* to) const;

  const PanelOutput& output() const { return output_; }

 private:
  void PackFloats(ConstMatrixView weight);
  void PackIntegers(const nn::QuantizedRows& integers);
  void ChooseKernel(Isa isa, bool short_sums);
  struct Span {
    const char* data = nullptr;
    int64_t bytes = 0;
  };
  Span NextBytes(int64_t panel, int tile, int tiles) const;
  int64_t Place(int64_t output, int64_t input) const {
    return PlaceInPanel(type_, shape_.strip, groups_, output, input);
  }

  DataType type_ = DataType::kFloat32;
  DenseTileOp::Function tile_ = nullptr;  // or that of ShortSumTileOp
  DenseTileShape shape_;
  std::string variant_;
  int64_t in_dim_ = 0, groups_ = 0, panel_bytes_ = 0;
  HugeBuffer buffer_;
  PanelOutput output_;
};

/// Puts float rows into the format that a step reads.
class RowConverter {
 public:
  explicit RowConverter(Isa isa);
  /// Without a known scale (format.scale = 0) each row gets its own: max/255 where nothing is negative, else
  /// max|x|/127 around 128.
  void Run(const Rows& in, const OutputFormat& format, const Rows& out) const;

 private:
  QuantizeRowOp::Function quantize_;
  RowRangeOp::Function range_;
};

}  // namespace antiphon::infer
