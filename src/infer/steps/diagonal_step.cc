// A scale and an offset per dimension: "normalize", and "batch-norm" with its running statistics, worked out once.
#include <algorithm>

#include "infer/plan_step.h"
#include "nn/diagonal.h"

namespace antiphon::infer {
namespace {

// y = (x + shift)·scale + offset.
class DiagonalStep : public PlanStep {
 public:
  /// `values`: shift, scale and offset.
  DiagonalStep(const StepArgs& args, Matrix values)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        values_(std::move(values)) {}

  void Run(const Rows& in, const Rows& out, std::byte*) const override {
    const float* const shift = values_.view().Row(0).data();
    const float* const scale = values_.view().Row(1).data();
    const float* const offset = values_.view().Row(2).data();
    for (int r = 0; r < in.rows; ++r) {
      const float* const x = in.Row<float>(r);
      float* const y = out.Row<float>(r);
      for (int64_t c = 0; c < in_dim(); ++c) y[c] = (x[c] + shift[c]) * scale[c] + offset[c];
    }
  }

  StepInfo Info() const override {
    return {name_, "diagonal", "", 3 * in_dim() * int64_t{sizeof(float)}, 3 * in_dim(), 3 * in_dim()};
  }

 private:
  std::string name_;
  Matrix values_;
};

// As it stands, since features may be far from 0.
Matrix ValuesOfNormalize(const StepArgs& args) {
  Matrix values(3, args.in_dim());
  std::copy_n(args.Get("offset").data(), args.in_dim(), values.Row(0).data());
  std::copy_n(args.Get("scale").data(), args.in_dim(), values.Row(1).data());
  return values;
}

Matrix ValuesOfBatchNorm(const StepArgs& args) {
  Matrix values(3, args.in_dim());
  const Matrix folded = nn::OffsetAndScale(args.network.layer(args.layer));
  std::copy_n(folded.Row(1).data(), args.in_dim(), values.Row(1).data());
  std::copy_n(folded.Row(0).data(), args.in_dim(), values.Row(2).data());
  return values;
}

REGISTER_COMPONENT(StepRegistry, "normalize",
                   [](const StepArgs& args) { return std::make_unique<DiagonalStep>(args, ValuesOfNormalize(args)); });
REGISTER_COMPONENT(StepRegistry, "batch-norm",
                   [](const StepArgs& args) { return std::make_unique<DiagonalStep>(args, ValuesOfBatchNorm(args)); });

}  // namespace
}  // namespace antiphon::infer
