// Affine layers as dense kernels: "affine", "linear", "quantized-affine", "fixed-affine".
#include "infer/steps/dense_step.h"

namespace antiphon::infer {
namespace {

DataType TypeOf(const StepArgs& args) {
  // A transform of raw features keeps their dynamic range.
  return args.network.layer_type(args.layer) == "fixed-affine" ? DataType::kFloat32 : args.options.precision;
}

}  // namespace

DenseStep::DenseStep(const StepArgs& args, ConstMatrixView weight)
    : PlanStep(args.in_dim(), args.out_dim()),
      name_(args.network.layer_name(args.layer)),
      activation_(args.activation),
      weights_(TypeOf(args), weight, args.Bias(), args.options.isa),
      input_format_(args.InputFormat(weights_.type())) {}

void DenseStep::OfferOutput(const OutputFormat& wanted) { output_format_ = WritableFormat(wanted, activation_); }

void DenseStep::Run(const Rows& in, const Rows& out, std::byte*) const {
  weights_.Run(in, activation_, output_format_, out);
}

StepInfo DenseStep::Info() const {
  const int64_t operations = 2 * in_dim() * out_dim();
  return {name_,
          "dense " + std::string(PlanPrecisionName(weights_.type())),
          weights_.variant(),
          weights_.bytes(),
          operations,
          operations};
}

namespace {

const auto kMake = [](const StepArgs& args) { return std::make_unique<DenseStep>(args); };

REGISTER_COMPONENT(StepRegistry, "affine", kMake);
REGISTER_COMPONENT(StepRegistry, "linear", kMake);
REGISTER_COMPONENT(StepRegistry, "quantized-affine", kMake);
REGISTER_COMPONENT(StepRegistry, "fixed-affine", kMake);

}  // namespace
}  // namespace antiphon::infer
