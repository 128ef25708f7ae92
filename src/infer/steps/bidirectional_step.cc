// "bidirectional": a plan for the chain over what was, whose state a stream keeps, and one for the chain over what
// comes, which starts anew for each output. A stream keeps the frames that wait for those after them.
#include <algorithm>

#include "infer/plan.h"
#include "infer/steps/inner_plan.h"
#include "infer/steps/kept_frames.h"
#include "infer/steps/spare_memory.h"
#include "nn/layers/bidirectional.h"

namespace antiphon::infer {
namespace {

constexpr int kWindows = 16;  // that are run together

class BidirectionalStep : public PlanStep {
 public:
  explicit BidirectionalStep(const StepArgs& args)
      : BidirectionalStep(args, dynamic_cast<const nn::Bidirectional&>(args.network.layer(args.layer))) {}

  bool sequential() const override { return true; }
  bool needs_network() const override { return past_.needs_network() || future_.needs_network(); }

  void Begin(StepState& state) const override { BeginInner(context_, in_dim(), past_, state); }

  void Run(const Rows&, const Rows&, std::byte*) const override {}

  void RunStreams(const Rows& in, const StreamRows& streams, const Rows& out, std::byte*) const override {
    std::unique_ptr<Memory> memory =
        spare_.Borrow(std::max(1, in.rows), [&](int rows) { return std::make_unique<Memory>(*this, rows); });
    memory->states.clear();
    int first = 0, given = 0;
    for (size_t s = 0; s < streams.rows.size(); ++s) {
      KeptFrames frames(context_, in, first, streams.rows[s], *streams.states[s]);
      memory->states.push_back(streams.states[s]->inner.get());
      for (int j = 0; j < frames.outputs(); ++j) {
        std::copy_n(frames.Of(j, 0), in_dim(), memory->past.input().Row(given + j).data());
      }
      RunFuture(frames, given, *memory, out);
      first += streams.rows[s];
      streams.rows[s] = frames.outputs();
      given += frames.outputs();
      frames.Keep();
    }
    past_.RunStreams(streams.rows, memory->states, memory->past, out.Floats().Cols(0, half()));
    spare_.Return(std::move(memory));
  }

  StepInfo Info() const override {
    StepInfo info{name_, "bidirectional", "", 0, 0, 0};
    AddInner(past_, 1, info);
    AddInner(future_, right_ + 1, info);
    return info;
  }

 private:
  struct Memory {
    Memory(const BidirectionalStep& step, int rows)
        : past(step.past_, rows),
          future(step.future_, kWindows * (step.right_ + 1)),
          result(future.max_rows(), step.half()) {
      for (int w = 0; w < kWindows; ++w) {
        windows.push_back(std::make_unique<PlanState>(step.future_));
        window_states.push_back(windows.back().get());
      }
    }
    int max_rows() const { return past.max_rows(); }
    PlanMemory past, future;
    Matrix result;
    std::vector<PlanState*> states;  // of the streams
    std::vector<std::unique_ptr<PlanState>> windows;
    std::vector<PlanState*> window_states;
  };

  // The network need not outlive the plan.
  BidirectionalStep(const StepArgs& args, const nn::Bidirectional& layer)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        right_(layer.right()),
        context_(layer.time_context()),
        past_(layer.past(), args.options),
        future_(layer.future(), args.options) {}

  int64_t half() const { return out_dim() / 2; }

  void RunFuture(const KeptFrames& frames, int given, Memory& memory, const Rows& out) const {
    const int length = right_ + 1;
    for (int begin = 0; begin < frames.outputs(); begin += kWindows) {
      const int count = std::min(kWindows, frames.outputs() - begin);
      for (int r = 0; r < count * length; ++r) {
        std::copy_n(frames.Of(begin + r / length, right_ - r % length), in_dim(), memory.future.input().Row(r).data());
      }
      std::vector<int> lengths(static_cast<size_t>(count), length);
      for (int w = 0; w < count; ++w) memory.windows[static_cast<size_t>(w)]->Reset();
      future_.RunStreams(lengths, std::span(memory.window_states).first(lengths.size()), memory.future,
                         memory.result.view().Rows(0, count * length));
      for (int w = 0; w < count; ++w) {
        const auto last = memory.result.Row((w + 1) * length - 1);
        std::copy(last.begin(), last.end(), out.Row<float>(given + begin + w) + half());
      }
    }
  }

  std::string name_;
  int right_;  // frames after its own that an output sees
  TimeContext context_;
  Plan past_, future_;
  mutable SpareMemory<Memory> spare_;
};

REGISTER_COMPONENT(StepRegistry, "bidirectional",
                   [](const StepArgs& args) { return std::make_unique<BidirectionalStep>(args); });

}  // namespace
}  // namespace antiphon::infer
