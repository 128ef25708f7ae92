// "residual": a plan of its own for the layers that the shortcut leads around. A stream keeps that plan's state, and
// the frames that wait for their outputs.
#include <algorithm>

#include "infer/plan.h"
#include "infer/steps/inner_plan.h"
#include "infer/steps/kept_frames.h"
#include "infer/steps/spare_memory.h"
#include "nn/layers/residual.h"

namespace antiphon::infer {
namespace {

class ResidualStep : public PlanStep {
 public:
  explicit ResidualStep(const StepArgs& args)
      : ResidualStep(args, dynamic_cast<const nn::Residual&>(args.network.layer(args.layer))) {}

  bool sequential() const override { return true; }
  int stride() const override { return context_.stride; }
  bool needs_network() const override { return plan_.needs_network(); }

  void Begin(StepState& state) const override { BeginInner(context_, in_dim(), plan_, state); }

  void Run(const Rows&, const Rows&, std::byte*) const override {}

  void RunStreams(const Rows& in, const StreamRows& streams, const Rows& out, std::byte*) const override {
    std::unique_ptr<Memory> memory =
        spare_.Borrow(std::max(1, in.rows), [&](int rows) { return std::make_unique<Memory>(plan_, rows); });
    memory->came.assign(streams.rows.begin(), streams.rows.end());
    memory->states.clear();
    for (StepState* state : streams.states) memory->states.push_back(state->inner.get());
    for (int r = 0; r < in.rows; ++r) std::copy_n(in.Row<float>(r), in_dim(), memory->plan.input().Row(r).data());
    plan_.RunStreams(streams.rows, memory->states, memory->plan, out.Floats());
    int first = 0, given = 0;
    for (size_t s = 0; s < streams.rows.size(); ++s) {
      KeptFrames frames(context_, in, first, memory->came[s], *streams.states[s]);
      CHECK_EQ(frames.outputs(), streams.rows[s]);
      AddShortcut(frames, given, out);
      first += memory->came[s];
      given += frames.outputs();
      frames.Keep();
    }
    spare_.Return(std::move(memory));
  }

  StepInfo Info() const override {
    StepInfo info{name_, "residual", "", 0, 0, 0};
    AddInner(plan_, 1, info);
    return info;
  }

 private:
  // The network need not outlive the plan.
  ResidualStep(const StepArgs& args, const nn::Residual& layer)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        scale_(layer.scale()),
        context_(layer.time_context()),
        plan_(layer.inner(), args.options) {}

  // What a run of the plan inside needs.
  struct Memory {
    Memory(const Plan& plan_inside, int rows) : plan(plan_inside, rows) {}
    int max_rows() const { return plan.max_rows(); }
    PlanMemory plan;
    std::vector<PlanState*> states;
    std::vector<int> came;
  };
  void AddShortcut(const KeptFrames& frames, int first, const Rows& out) const {
    for (int j = 0; j < frames.outputs(); ++j) {
      const float* from = frames.Of(j, 0);
      float* to = out.Row<float>(first + j);
      for (int64_t c = 0; c < out.dim; ++c) to[c] += scale_ * from[c];
    }
  }

  std::string name_;
  float scale_;
  TimeContext context_;
  Plan plan_;
  mutable SpareMemory<Memory> spare_;
};

REGISTER_COMPONENT(StepRegistry, "residual", [](const StepArgs& args) { return std::make_unique<ResidualStep>(args); });

}  // namespace
}  // namespace antiphon::infer
