// "splice": frames side by side. A stream keeps the last frames that came, as many as outputs to come still need.
#include <algorithm>

#include "infer/plan_step.h"

namespace antiphon::infer {
namespace {

class SpliceStep : public PlanStep {
 public:
  explicit SpliceStep(const StepArgs& args)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        context_(args.network.layer(args.layer).time_context()) {
    for (const int64_t offset : *args.LayerConfig().Ints("offsets")) offsets_.push_back(static_cast<int>(offset));
  }

  bool sequential() const override { return true; }

  void Begin(StepState& state) const override {
    state.values.assign(static_cast<size_t>((context_.span() + context_.stride - 1) * in_dim()), 0.0F);
    state.rows = 0;
  }

  void Run(const Rows&, const Rows&, std::byte*) const override {}

  void RunStreams(const Rows& in, const StreamRows& streams, const Rows& out, std::byte*) const override {
    int first = 0, given = 0;
    for (size_t s = 0; s < streams.rows.size(); ++s) {
      const int count = streams.rows[s];
      streams.rows[s] = RunStream(in, first, count, *streams.states[s], out, given);
      first += count;
      given += streams.rows[s];
    }
  }

  StepInfo Info() const override { return {name_, "splice", "", 0, 0, 0}; }

 private:
  // Rows first … of `in` to rows given … of `out`; returns how many.
  int RunStream(const Rows& in, int first, int count, StepState& state, const Rows& out, int given) const {
    const int kept = state.rows;
    const auto frame = [&](int t) {
      return t < kept ? state.values.data() + t * in_dim() : in.Row<float>(first + t - kept);
    };
    const auto outputs = static_cast<int>(context_.Outputs(kept + count));
    for (int j = 0; j < outputs; ++j) {
      float* to = out.Row<float>(given + j);
      for (const int offset : offsets_) {
        to = std::copy_n(frame(j * context_.stride + context_.left + offset), in_dim(), to);
      }
    }
    // From the front, as what is copied may lie further behind in the same memory.
    const int used = outputs * context_.stride;
    state.rows = kept + count - used;
    for (int t = 0; t < state.rows; ++t) std::copy_n(frame(used + t), in_dim(), state.values.data() + t * in_dim());
    return outputs;
  }

  std::string name_;
  TimeContext context_;
  std::vector<int> offsets_;
};

REGISTER_COMPONENT(StepRegistry, "splice", [](const StepArgs& args) { return std::make_unique<SpliceStep>(args); });

}  // namespace
}  // namespace antiphon::infer
