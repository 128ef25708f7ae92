#include "infer/profile_part.h"

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

void ProfilePart::Run(const Rows& in, std::byte* converted, const Rows& out) const {
  if (!scale_.empty()) {
    for (int r = 0; r < in.rows; ++r) {
      const float* const x = in.Row<float>(r);
      float* const y = out.Row<float>(r);
      for (size_t c = 0; c < scale_.size(); ++c) y[c] = scale_[c] * x[c];
      for (size_t c = 0; c < offset_.size(); ++c) y[c] += offset_[c];
    }
    return;
  }
  if (!adds_) return matrix_.Run(in, Activation::kNone, OutputFormat{}, out);
  const OutputFormat format{matrix_.type(), 0.0F, 0};  // each row by a scale of its own
  const Rows rounded = PlaceRows(converted, format.type, in.rows, in.dim);
  converter_.Run(in, format, rounded);
  matrix_.Run(rounded, Activation::kNone, OutputFormat{}, out);
  for (int r = 0; r < in.rows; ++r) {
    const float* const x = in.Row<float>(r);
    float* const y = out.Row<float>(r);
    for (int64_t c = 0; c < in.dim; ++c) y[c] += x[c];
  }
}

}  // namespace antiphon::infer
