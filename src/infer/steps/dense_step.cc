// Affine layers as dense kernels: "affine", "linear", "quantized-affine", "fixed-affine"; "inverse-cosine", which is a
// fixed matrix too.
#include "infer/steps/dense_step.h"

namespace antiphon::infer {
namespace {

// Of a layer that is linear and fixed, but holds no weights: what it makes of each input alone.
Matrix MatrixOf(const nn::Layer& layer) {
  Matrix unit(layer.in_dim(), layer.in_dim()), columns(layer.in_dim(), layer.out_dim());
  for (int i = 0; i < layer.in_dim(); ++i) unit(i, i) = 1;
  nn::Workspace workspace;
  layer.Forward({}, unit, columns, workspace);
  Matrix weight(layer.out_dim(), layer.in_dim());
  for (int64_t r = 0; r < weight.rows(); ++r) {
    for (int64_t c = 0; c < weight.cols(); ++c) weight(r, c) = columns(c, r);
  }
  return weight;
}

}  // namespace

DenseStep::DenseStep(const StepArgs& args, ConstMatrixView weight, DataType precision)
    : PlanStep(args.in_dim(), args.out_dim()),
      name_(args.network.layer_name(args.layer)),
      activation_(args.activation),
      weights_(precision, weight, args.Bias(), args.options.isa),
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
// Transforms of raw features, whose dynamic range they keep.
REGISTER_COMPONENT(StepRegistry, "fixed-affine", [](const StepArgs& args) {
  return std::make_unique<DenseStep>(args, args.Get("weight"), DataType::kFloat32);
});
REGISTER_COMPONENT(StepRegistry, "inverse-cosine", [](const StepArgs& args) {
  return std::make_unique<DenseStep>(args, MatrixOf(args.network.layer(args.layer)), DataType::kFloat32);
});

}  // namespace
}  // namespace antiphon::infer
