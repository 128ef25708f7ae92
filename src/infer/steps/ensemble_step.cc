// "ensemble": a plan for each member. A stream keeps each plan's state, and the frames that wait for members that see
// fewer of them than others.
#include <algorithm>
#include <numeric>

#include "infer/plan.h"
#include "infer/steps/inner_plan.h"
#include "infer/steps/kept_frames.h"
#include "infer/steps/spare_memory.h"
#include "kernels/elementwise.h"
#include "nn/layers/ensemble.h"

namespace antiphon::infer {
namespace {

class EnsembleStep : public PlanStep {
 public:
  explicit EnsembleStep(const StepArgs& args)
      : EnsembleStep(args, dynamic_cast<const nn::Ensemble&>(args.network.layer(args.layer))) {}

  bool sequential() const override {
    return std::any_of(members_.begin(), members_.end(),
                       [](const Member& m) { return m.plan.sequential() || m.unseen.span() > 0; });
  }
  int stride() const override { return stride_; }
  bool needs_network() const override {
    return std::any_of(members_.begin(), members_.end(), [](const Member& m) { return m.plan.needs_network(); });
  }

  void Begin(StepState& state) const override {
    state.parts.resize(members_.size());
    for (size_t k = 0; k < members_.size(); ++k) {
      BeginInner(members_[k].unseen, in_dim(), members_[k].plan, state.parts[k]);
    }
  }

  void Run(const Rows& in, const Rows& out, std::byte*) const override {
    std::unique_ptr<Memory> memory = BorrowMemory(in.rows);
    for (size_t k = 0; k < members_.size(); ++k) {
      for (int r = 0; r < in.rows; ++r) {
        std::copy_n(in.Row<float>(r), in_dim(), memory->plans[k].input().Row(r).data());
      }
      members_[k].plan.Run(in.rows, memory->plans[k], memory->result.view().Rows(0, in.rows));
      AddShare(k, in.rows, *memory, out);
    }
    spare_.Return(std::move(memory));
  }

  void RunStreams(const Rows& in, const StreamRows& streams, const Rows& out, std::byte*) const override {
    std::unique_ptr<Memory> memory = BorrowMemory(in.rows);
    memory->came.assign(streams.rows.begin(), streams.rows.end());
    for (size_t k = 0; k < members_.size(); ++k) {
      AddShare(k, RunMember(k, in, streams, *memory), *memory, out);
    }
    spare_.Return(std::move(memory));
  }

  StepInfo Info() const override {
    StepInfo info{name_, "ensemble", "", 0, 0, 0};
    for (const Member& member : members_) AddInner(member.plan, 1, info);
    return info;
  }

 private:
  struct Member {
    Plan plan;
    float share;
    TimeContext unseen;  // frames before and behind those that it sees
  };
  // What runs of the plans inside need.
  struct Memory {
    Memory(const EnsembleStep& step, int rows) : result(rows, step.out_dim()) {
      for (const Member& member : step.members_) plans.emplace_back(member.plan, rows);
    }
    int max_rows() const { return plans.front().max_rows(); }
    std::vector<PlanMemory> plans;
    Matrix result;
    std::vector<PlanState*> states;
    std::vector<int> came;
  };

  // The network need not outlive the plan.
  EnsembleStep(const StepArgs& args, const nn::Ensemble& layer)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        stride_(layer.time_context().stride) {
    for (const nn::Ensemble::Member& member : layer.members()) {
      members_.push_back(
          {Plan(member.network, args.options), member.share, TimeContext{member.left_unseen, member.right_unseen, 1}});
    }
  }

  std::unique_ptr<Memory> BorrowMemory(int most_rows) const {
    return spare_.Borrow(std::max(1, most_rows), [&](int rows) { return std::make_unique<Memory>(*this, rows); });
  }

  // Of member k, what lies in memory.result.
  void AddShare(size_t k, int rows, const Memory& memory, const Rows& out) const {
    const MatrixView to = out.Floats().Rows(0, rows);
    const ConstMatrixView from = memory.result.view().Rows(0, rows);
    if (k == 0) {
      Scale(members_[k].share, from, to);
    } else {
      AddScaled(members_[k].share, from, to);
    }
  }

  // Into memory.result, so many rows; streams.rows become those of each stream.
  int RunMember(size_t k, const Rows& in, const StreamRows& streams, Memory& memory) const {
    const Member& member = members_[k];
    memory.states.clear();
    int first = 0, seen = 0;
    for (size_t s = 0; s < streams.rows.size(); ++s) {
      StepState& state = streams.states[s]->parts[k];
      memory.states.push_back(state.inner.get());
      KeptFrames frames(member.unseen, in, first, memory.came[s], state);
      for (int j = 0; j < frames.outputs(); ++j) {
        std::copy_n(frames.Of(j, 0), in_dim(), memory.plans[k].input().Row(seen + j).data());
      }
      first += memory.came[s];
      streams.rows[s] = frames.outputs();
      seen += frames.outputs();
      frames.Keep();
    }
    member.plan.RunStreams(streams.rows, memory.states, memory.plans[k], memory.result);
    return std::accumulate(streams.rows.begin(), streams.rows.end(), 0);
  }

  std::string name_;
  int stride_;
  std::vector<Member> members_;
  mutable SpareMemory<Memory> spare_;
};

REGISTER_COMPONENT(StepRegistry, "ensemble", [](const StepArgs& args) { return std::make_unique<EnsembleStep>(args); });

}  // namespace
}  // namespace antiphon::infer
