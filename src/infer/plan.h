// A network as a list of fused steps for this CPU: what scoring runs.
//
// Matrix products with their bias, activation and the rounding to the next layer's format are one step; weights are
// packed once and shared by all callers; a caller's memory is a PlanMemory of fixed size, so that nothing is allocated
// after the start. Every frame's result is the same bits whatever frames go with it, and on int8 on every instruction
// set.
//
//   const Plan plan(network, {DataType::kInt8});
//   PlanMemory memory(plan, 32);
//   std::copy(…, memory.input().Row(0).data());      // up to 32 frames
//   plan.Run(32, memory, logits);
//
// A plan with sequential steps (plan_step.h) runs frames of streams, each with its PlanState: it takes a stream's
// frames in any pieces, beginning with the first frame as often as the network's left context says and ending with the
// last one so often, and gives each output when its frames are there.
//
// Shapes: input [rows, in_dim], output [rows, out_dim]; rows may be 0.
// Threads: a Plan serves many threads, a PlanMemory one; within a step the caller's compute threads shares the outputs.
// Errors: InputError for input that is not finite, naming the row; UsageError for options. What overflows on the way is
// no error: the row's scores are not finite.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "infer/bound_profile.h"
#include "infer/plan_step.h"

namespace antiphon::infer {

class Plan;

/// What a plan remembers of one stream.
class PlanState {
 public:
  explicit PlanState(const Plan& plan);
  /// An utterance begins.
  void Reset();
  size_t bytes() const;

 private:
  friend class Plan;
  const Plan& plan_;
  std::vector<StepState> steps_;
};

class PlanMemory {
 public:
  PlanMemory(const Plan& plan, int max_rows);
  /// Where the caller puts the frames; [max_rows, in_dim].
  MatrixView input() const { return input_; }
  int max_rows() const { return max_rows_; }
  size_t bytes() const { return memory_.bytes(); }
  /// If it has a place per step, Run adds each step's seconds.
  std::vector<double> step_seconds;

 private:
  friend class Plan;
  int max_rows_;
  std::vector<ProfileRun> runs_;
  std::vector<const float*> factors_;  // a step's, per row
  HugeBuffer memory_;
  MatrixView input_;
  std::byte* buffers_[3] = {};  // a step's input, its output, a converted input
  std::byte* scratch_ = nullptr;
  std::vector<StepState*> states_;
};

class Plan {
 public:
  /// Layers that have no kernel of their own are run by the network, which must outlive the plan then.
  Plan(const nn::Network& network, const PlanOptions& options);

  int64_t in_dim() const { return in_dim_; }
  int64_t out_dim() const { return out_dim_; }
  const PlanOptions& options() const { return options_; }
  bool needs_network() const { return needs_network_; }
  bool sequential() const { return sequential_; }
  /// Which frames an output needs.
  const TimeContext& time_context() const { return context_; }

  size_t num_steps() const { return steps_.size(); }
  const PlanStep& step(size_t i) const { return *steps_[i]; }
  int64_t weight_bytes() const;
  /// Multiplications and additions per frame that comes in, steps above a stride counting for as much less often.
  double OperationsPerFrame() const;

  /// All steps, from the first `rows` of the input into `out` [rows, out_dim]. `profiles` (of an adaptable plan) change
  /// hidden values row by row.
  void Run(int rows, PlanMemory& memory, MatrixView out, RowProfiles profiles = {}) const;
  /// Rows of several streams, rows[i] consecutive ones of stream i; these become the numbers of rows that came out,
  /// into the first rows of `out`, which has room for as many as came in. `profiles` as for Run, one per stream. For
  /// any plan.
  void RunStreams(std::span<int> rows, std::span<PlanState* const> states, PlanMemory& memory, MatrixView out,
                  RowProfiles profiles = {}) const;
  /// All but the last step; the result is what the last step reads, and lies in `memory` until the next call.
  Rows RunHidden(int rows, PlanMemory& memory, RowProfiles profiles = {}) const;

  /// The step after which the output of a layer stands; nullopt if no such layer is there, or it has no place of its
  /// own (the next one is computed with it).
  std::optional<size_t> StepOf(const std::string& layer) const;

 private:
  friend class PlanMemory;
  friend class PlanState;
  struct Streams {
    std::span<int> rows;
    std::span<PlanState* const> states;
  };
  Rows RunSteps(size_t count, int rows, PlanMemory& memory, MatrixView out, const Streams* streams,
                RowProfiles profiles) const;
  int RunSequential(size_t step, const Rows& in, const Streams& streams, PlanMemory& memory, const Rows& out) const;

  PlanOptions options_;
  int64_t in_dim_ = 0, out_dim_ = 0, widest_ = 0;
  bool needs_network_ = false;
  bool sequential_ = false;
  TimeContext context_;
  std::vector<std::unique_ptr<PlanStep>> steps_;
  std::map<std::string, size_t> step_of_layer_;
  RowConverter converter_;
};

}  // namespace antiphon::infer
