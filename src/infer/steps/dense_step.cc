// Affine layers as dense kernels: "affine", "linear", "quantized-affine", "fixed-affine".
#include "infer/steps/dense_step.h"

namespace antiphon::infer {
namespace {

DataType TypeOf(const StepArgs& args) {
  // A transform of raw features keeps their dynamic range.
  return args.network.layer_type(args.layer) == "fixed-affine" ? DataType::kFloat32 : args.options.precision;
}

OutputFormat InputFormatOf(const StepArgs& args, DataType type) {
  OutputFormat format{type, 0.0F, 0};
  const ConstMatrixView scale = args.Find("input_scale"), zero = args.Find("input_zero");
  if (type != DataType::kInt8 || scale.empty() || zero.empty()) return format;
  format.scale = scale(0, 0);
  format.zero = static_cast<int32_t>(zero(0, 0));
  return format;
}

std::span<const float> BiasOf(const StepArgs& args) {
  const ConstMatrixView bias = args.Find("bias");
  return bias.empty() ? std::span<const float>() : bias.Row(0);
}

}  // namespace

DenseStep::DenseStep(const StepArgs& args)
    : PlanStep(args.in_dim(), args.out_dim()),
      name_(args.network.layer_name(args.layer)),
      activation_(args.activation),
      weights_(TypeOf(args), args.Get("weight"), BiasOf(args), args.options.isa),
      input_format_(InputFormatOf(args, weights_.type())) {}

void DenseStep::OfferOutput(const OutputFormat& wanted) {
  output_format_ = wanted;
  if (wanted.type != DataType::kInt8 || wanted.scale != 0.0F) return;
  // Values in 0 … 1 need nobody to look at them; others are rounded when the whole row is known.
  output_format_ =
      activation_ == Activation::kSigmoid ? OutputFormat{DataType::kInt8, 1.0F / 255.0F, 0} : OutputFormat{};
}

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
REGISTER_COMPONENT(StepRegistry, "fixed-affine", kMake);

}  // namespace
}  // namespace antiphon::infer
