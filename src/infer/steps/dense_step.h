// An affine layer with its activation, as one dense product; also the output layer of which parts are computed.
#pragma once

#include <string>

#include "infer/plan_step.h"

namespace antiphon::infer {

class DenseStep : public PlanStep {
 public:
  explicit DenseStep(const StepArgs& args) : DenseStep(args, args.Get("weight"), args.options.precision) {}
  /// With weights and a precision of its own.
  DenseStep(const StepArgs& args, ConstMatrixView weight, DataType precision);

  OutputFormat input_format() const override { return input_format_; }
  void OfferOutput(const OutputFormat& wanted) override;
  OutputFormat output_format() const override { return output_format_; }
  bool takes_factors() const override { return true; }
  void Run(const Rows& in, const Rows& out, std::byte* scratch) const override;
  StepInfo Info() const override;

  const PackedDense& weights() const { return weights_; }
  Activation activation() const { return activation_; }

 private:
  std::string name_;
  Activation activation_;
  PackedDense weights_;
  OutputFormat input_format_;
  OutputFormat output_format_;
};

}  // namespace antiphon::infer
