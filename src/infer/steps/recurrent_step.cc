#include "infer/steps/recurrent_step.h"

namespace antiphon::infer {

RowProduct::RowProduct(const StepArgs& args, ConstMatrixView weight, std::span<const float> bias, Activation activation)
    : weights_(args.options.precision, weight, bias, args.options.isa),
      converter_(args.options.isa),
      format_{weights_.type(), weights_.type() == DataType::kInt8 ? 0.0F : 1.0F, 0},
      activation_(activation) {}

void RowProduct::Run(const Rows& in, const Rows& out, std::byte* scratch) const {
  if (format_.type == DataType::kFloat32) return weights_.Run(in, activation_, {}, out);
  const Rows converted = PlaceRows(scratch, format_.type, in.rows, in.dim);
  converter_.Run(in, format_, converted);
  weights_.Run(converted, activation_, {}, out);
}

}  // namespace antiphon::infer
