#include "infer/profile_part.h"

#include <algorithm>

namespace antiphon::infer {

ProfilePart::ProfilePart(const nn::SpeakerProfile::Part& part, DataType precision, Isa isa)
    : adds_(part.scale.empty() && precision != DataType::kFloat32), converter_(isa) {
  const std::span<const float> offset(part.offset.data(), static_cast<size_t>(part.offset.size()));
  if (!part.scale.empty()) {
    scale_.assign(part.scale.data(), part.scale.data() + part.scale.size());
    offset_.assign(offset.begin(), offset.end());
    return;
  }
  Matrix matrix(part.matrix);
  for (int64_t i = 0; i < matrix.rows() && adds_; ++i) matrix(i, i) -= 1;
  matrix_ = PackedDense(precision, matrix, offset, isa);
}

void ProfilePart::Run(const Rows& rows, std::byte* converted, std::byte* product) const {
  if (!scale_.empty()) {
    for (int r = 0; r < rows.rows; ++r) {
      float* const x = rows.Row<float>(r);
      for (size_t c = 0; c < scale_.size(); ++c) x[c] *= scale_[c];
      for (size_t c = 0; c < offset_.size(); ++c) x[c] += offset_[c];
    }
    return;
  }
  Rows in = rows;
  if (matrix_.type() != DataType::kFloat32) {
    // Each row by a scale of its own.
    const OutputFormat format{matrix_.type(), 0.0F, 0};
    in = PlaceRows(converted, format.type, rows.rows, rows.dim);
    converter_.Run(rows, format, in);
  }
  const Rows out = PlaceRows(product, DataType::kFloat32, rows.rows, rows.dim);
  matrix_.Run(in, Activation::kNone, OutputFormat{}, out);
  for (int r = 0; r < rows.rows; ++r) {
    float* const x = rows.Row<float>(r);
    const float* const y = out.Row<float>(r);
    if (adds_) {
      for (int64_t c = 0; c < rows.dim; ++c) x[c] += y[c];
    } else {
      std::copy_n(y, rows.dim, x);
    }
  }
}

}  // namespace antiphon::infer
