#include "infer/steps/layer_step.h"

#include "nn/workspace.h"

namespace antiphon::infer {

LayerStep::LayerStep(const StepArgs& args)
    : PlanStep(args.in_dim(), args.out_dim()),
      layer_(args.network.layer(args.layer)),
      name_(args.network.layer_name(args.layer)),
      type_(args.network.layer_type(args.layer)) {
  for (const nn::Parameter* p : args.parameters()) parameters_ += p->value.size();
}

void LayerStep::Run(const Rows& in, const Rows& out, std::byte*) const {
  // Layers keep what they need for a backward pass, of which there is none.
  thread_local nn::Workspace workspace;
  const MatrixView x = in.Floats(), y = out.Floats();
  if (parameters_ == 0) return layer_.Forward({}, x, y, workspace);
  // One frame after another: a matrix product's bits may depend on how many go together.
  for (int r = 0; r < in.rows; ++r) layer_.Forward({}, x.Rows(r, 1), y.Rows(r, 1), workspace);
}

StepInfo LayerStep::Info() const {
  return {name_, "layer:" + type_, "", parameters_ * int64_t{sizeof(float)}, 2 * parameters_, 2 * parameters_};
}

}  // namespace antiphon::infer
