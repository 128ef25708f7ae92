// "splice": frames side by side. A stream keeps the last frames that came, as many as outputs to come still need.
#include <algorithm>

#include "infer/steps/kept_frames.h"

namespace antiphon::infer {
namespace {

class SpliceStep : public PlanStep {
 public:
  explicit SpliceStep(const StepArgs& args)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        context_(args.network.layer(args.layer).time_context()) {
    const std::vector<int64_t> offsets = args.LayerConfig().Ints("offsets").value();
    offsets_.assign(offsets.begin(), offsets.end());
  }

  bool sequential() const override { return true; }
  int stride() const override { return context_.stride; }

  void Begin(StepState& state) const override { KeptFrames::Begin(context_, in_dim(), state); }
  void Run(const Rows&, const Rows&, std::byte*) const override {}

  void RunStreams(const Rows& in, const StreamRows& streams, const Rows& out, std::byte*) const override {
    int first = 0, given = 0;
    for (size_t s = 0; s < streams.rows.size(); ++s) {
      KeptFrames frames(context_, in, first, streams.rows[s], *streams.states[s]);
      first += streams.rows[s];
      for (int j = 0; j < frames.outputs(); ++j) {
        float* to = out.Row<float>(given + j);
        for (const int offset : offsets_) to = std::copy_n(frames.Of(j, offset), in_dim(), to);
      }
      streams.rows[s] = frames.outputs();
      given += streams.rows[s];
      frames.Keep();
    }
  }

  StepInfo Info() const override { return {name_, "splice", "", 0, 0, 0}; }

 private:
  std::string name_;
  TimeContext context_;
  std::vector<int> offsets_;
};

REGISTER_COMPONENT(StepRegistry, "splice", [](const StepArgs& args) { return std::make_unique<SpliceStep>(args); });

}  // namespace
}  // namespace antiphon::infer
