// A scale and an offset per dimension: "normalize", and "batch-norm" with its running statistics, worked out once.
#include <algorithm>

#include "infer/plan_step.h"
#include "nn/diagonal.h"

namespace antiphon::infer {
namespace {

// y = (x + shift)·scale + offset.
class DiagonalStep : public PlanStep {
 public:
  explicit DiagonalStep(const StepArgs& args)
      : PlanStep(args.in_dim(), args.out_dim()), name_(args.network.layer_name(args.layer)), values_(3, args.in_dim()) {
    if (args.network.layer_type(args.layer) == "normalize") {
      // As it stands, since features may be far from 0.
      std::copy_n(args.Get("offset").data(), in_dim(), values_.Row(0).data());
      std::copy_n(args.Get("scale").data(), in_dim(), values_.Row(1).data());
      return;
    }
    const Matrix values = nn::OffsetAndScale(args.network.layer(args.layer));
    std::copy_n(values.Row(1).data(), in_dim(), values_.Row(1).data());
    std::copy_n(values.Row(0).data(), in_dim(), values_.Row(2).data());
  }

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

const auto kMakeDiagonal = [](const StepArgs& args) { return std::make_unique<DiagonalStep>(args); };

REGISTER_COMPONENT(StepRegistry, "normalize", kMakeDiagonal);
REGISTER_COMPONENT(StepRegistry, "batch-norm", kMakeDiagonal);

}  // namespace
}  // namespace antiphon::infer
