#include "infer/packed_dense.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "kernels/parallel.h"
#include "math/bf16.h"

namespace antiphon::infer {

Rows PlaceRows(std::byte* memory, DataType type, int rows, int64_t dim) {
  Rows placed;
  placed.type = type;
  placed.rows = rows;
  placed.dim = dim;
  placed.stride = RowStride(dim);
  placed.data = memory;
  placed.scale = reinterpret_cast<float*>(memory + rows * placed.stride);
  placed.zero = reinterpret_cast<int32_t*>(placed.scale + (rows + 15) / 16 * 16);
  return placed;
}

PackedDense::PackedDense(DataType type, ConstMatrixView weight, std::span<const float> bias, Isa isa)
    : type_(type),
      in_dim_(weight.cols()),
      output_(type == DataType::kInt8 ? DataType::kInt8 : DataType::kFloat32, weight.rows(), bias, isa) {
  const int64_t group = DepthGroup(type);
  if (type == DataType::kInt8 && in_dim_ > kMaxInt8Depth) {
    Throw<UsageError>("a layer of {} inputs is too wide for exact 8-bit sums (at most {}); use fp32 or bf16", in_dim_,
                      kMaxInt8Depth);
  }
  groups_ = (in_dim_ + group - 1) / group;
  panel_bytes_ = groups_ * group * kPanelOutputs * ValueBytes(type);
  buffer_ = HugeBuffer(static_cast<size_t>(bytes()));
  if (type == DataType::kInt8) {
    const nn::QuantizedRows integers = nn::QuantizeRows(weight, 8);
    ChooseKernel(isa, nn::ShortSumsFit(integers));
    PackIntegers(integers);
  } else {
    ChooseKernel(isa, false);
    PackFloats(weight);
  }
}

void PackedDense::ChooseKernel(Isa isa, bool short_sums) {
  const auto& tile = IsaKernel<DenseTileOp>(type_, isa);
  tile_ = tile.function;
  variant_ = tile.variant;
  shape_ = DenseTileShapeOf(type_, variant_);
  if (!short_sums) return;
  for (const auto& entry : KernelTable<ShortSumTileOp>::Get().entries()) {
    if (entry.variant != variant_) continue;
    tile_ = entry.function;
    shape_ = ShortSumTileShapeOf(variant_);
  }
}

void PackedDense::PackFloats(ConstMatrixView weight) {
  for (int64_t o = 0; o < out_dim(); ++o) {
    const auto row = weight.Row(o);
    std::byte* const panel = buffer_.data() + o / kPanelOutputs * panel_bytes_;
    if (type_ == DataType::kFloat32) {
      for (int64_t i = 0; i < in_dim_; ++i) reinterpret_cast<float*>(panel)[Place(o, i)] = row[i];
    } else {
      for (int64_t i = 0; i < in_dim_; ++i) reinterpret_cast<Bf16*>(panel)[Place(o, i)] = ToBf16(row[i]);
    }
  }
}

void PackedDense::PackIntegers(const nn::QuantizedRows& integers) {
  for (int64_t o = 0; o < out_dim(); ++o) {
    auto* const panel = reinterpret_cast<int8_t*>(buffer_.data() + o / kPanelOutputs * panel_bytes_);
    const std::span<const int8_t> row = integers.Row(o);
    for (int64_t i = 0; i < in_dim_; ++i) panel[Place(o, i)] = row[static_cast<size_t>(i)];
    output_.scales()[static_cast<size_t>(o)] = integers.scales[static_cast<size_t>(o)];
    output_.weight_sums()[static_cast<size_t>(o)] = std::accumulate(row.begin(), row.end(), 0);
  }
}

void PackedDense::UnpackInt8(int64_t output, int8_t* to) const {
  CHECK(type_ == DataType::kInt8);
  const auto* const values = reinterpret_cast<const int8_t*>(buffer_.data() + output / kPanelOutputs * panel_bytes_);
  for (int64_t i = 0; i < in_dim_; ++i) to[i] = values[Place(output, i)];
}

void PackedDense::Run(const Rows& in, Activation activation, const OutputFormat& format, const Rows& out) const {
  CHECK(in.type == type_ && in.dim == in_dim_ && out.dim == out_dim() && in.rows == out.rows);
  PanelOutput::Begin(format, out);
  const int steps = (in.rows + shape_.step - 1) / shape_.step;
  const int tiles = (in.rows + shape_.rows - 1) / shape_.rows;
  const auto first_row = [&](int tile) { return std::min(in.rows, steps * tile / tiles * shape_.step); };
  ParallelRanges(num_panels(), kPanelOutputs * groups_ * in.rows, 1, [&](int64_t begin, int64_t end) {
    alignas(64) int32_t sums[kMostTileRows * kPanelOutputs];
    for (int64_t p = begin; p < end; ++p) {
      for (int t = 0; t < tiles; ++t) {
        const int row = first_row(t);
        const int count = first_row(t + 1) - row;
        const Span next = NextBytes(p, t, tiles);
        tile_({.input = in.Row<std::byte>(row),
               .input_stride = in.stride,
               .rows = count,
               .panel = buffer_.data() + p * panel_bytes_,
               .groups = groups_,
               .out = sums,
               .panel_in_cache = t > 0,
               .next = next.data,
               .next_bytes = next.bytes});
        output_.Store(sums, p, row, count, in, activation, format, out);
      }
    }
  });
}

// What tile t of a panel fetches of the next one: kernels in strips share its first strip among the rows of the first
// tile, others share all of it among the tiles, but for the first, which waits for memory itself.
PackedDense::Span PackedDense::NextBytes(int64_t panel, int tile, int tiles) const {
  const bool in_strips = shape_.strip < kPanelOutputs;
  if (panel + 1 == num_panels() || in_strips != (tile == 0)) return {};
  const auto* const next = reinterpret_cast<const char*>(buffer_.data() + (panel + 1) * panel_bytes_);
  if (in_strips) return {next, panel_bytes_ / kPanelOutputs * shape_.strip};
  const int64_t begin = panel_bytes_ * (tile - 1) / (tiles - 1), end = panel_bytes_ * tile / (tiles - 1);
  return {next + begin, end - begin};
}

RowConverter::RowConverter(Isa isa)
    : quantize_(IsaKernel<QuantizeRowOp>(DataType::kInt8, isa).function),
      range_(IsaKernel<RowRangeOp>(DataType::kFloat32, isa).function) {}

void RowConverter::Run(const Rows& in, const OutputFormat& format, const Rows& out) const {
  CHECK(in.type == DataType::kFloat32 && in.dim == out.dim && in.rows == out.rows);
  if (format.type == DataType::kBf16) {
    for (int r = 0; r < in.rows; ++r) {
      for (int64_t i = 0; i < in.dim; ++i) out.Row<Bf16>(r)[i] = ToBf16(in.Row<float>(r)[i]);
    }
    return;
  }
  CHECK(format.type == DataType::kInt8);
  for (int r = 0; r < in.rows; ++r) {
    float scale = format.scale;
    int32_t zero = format.zero;
    if (scale == 0.0F) {
      float least, largest;
      range_(in.Row<float>(r), in.dim, &least, &largest);
      zero = least < 0 ? 128 : 0;
      scale = least < 0 ? std::max(-least, largest) / 127.0F : largest / 255.0F;
      // All zeros, or so small that the scale's inverse would overflow.
      if (!(scale > 1e-30F)) scale = 1.0F;
    }
    out.scale[r] = scale;
    out.zero[r] = zero;
    quantize_(in.Row<float>(r), in.dim, 1.0F / scale, static_cast<float>(zero), out.Row<uint8_t>(r));
  }
}

}  // namespace antiphon::infer
