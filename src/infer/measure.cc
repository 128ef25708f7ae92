#include "infer/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/compute_threads.h"
#include "base/median.h"
#include "base/random.h"
#include "kernels/dense_tile.h"
#include "kernels/softmax.h"

namespace antiphon::infer {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The best of some repetitions, each run by all threads.
template <class Body>
double BestRate(double work_per_thread, int repetitions, Body body) {
  double best = 0;
  for (int i = 0; i < repetitions; ++i) {
    const double start = Now();
    ParallelPieces(ComputeThreads(), [&](int64_t piece, int /*thread*/) { body(static_cast<int>(piece)); });
    best = std::max(best, work_per_thread * ComputeThreads() / (Now() - start));
  }
  return best;
}

}  // namespace

MachineLimits MeasureLimits(DataType type, Isa isa) {
  MachineLimits limits;
  constexpr size_t kBytes = size_t{1} << 27;
  const int threads = ComputeThreads();
  HugeBuffer memory(kBytes * static_cast<size_t>(threads));
  std::memset(memory.data(), 1, memory.bytes());
  const auto& kernel = IsaKernel<DenseTileOp>(type, isa);
  const auto tile = kernel.function;
  const int rows = DenseTileShapeOf(type, kernel.variant).rows;
  std::vector<int32_t> out(static_cast<size_t>(threads * rows * kPanelOutputs));
  std::vector<std::byte> input(1 << 16);
  constexpr int64_t kGroups = 1024;
  // One row of inputs per panel: nothing but reading.
  limits.bytes_per_second = BestRate(static_cast<double>(kBytes), 3, [&](int thread) {
    const int64_t panel = kGroups * kPanelOutputs * 4;
    for (size_t at = 0; at + static_cast<size_t>(panel) <= kBytes; at += static_cast<size_t>(panel)) {
      tile({.input = input.data(),
            .input_stride = 0,
            .rows = 1,
            .panel = memory.data() + static_cast<size_t>(thread) * kBytes + at,
            .groups = kGroups,
            .out = out.data() + thread * rows * kPanelOutputs});
    }
  });
  constexpr int64_t kShortGroups = 64;
  constexpr int kCalls = 4000;
  const double operations = 2.0 * rows * kPanelOutputs * static_cast<double>(kShortGroups * DepthGroup(type)) * kCalls;
  limits.operations_per_second = BestRate(operations, 5, [&](int thread) {
    for (int i = 0; i < kCalls; ++i) {
      tile({.input = input.data(),
            .input_stride = kShortGroups * 4,
            .rows = rows,
            .panel = memory.data() + static_cast<size_t>(thread) * kBytes,
            .groups = kShortGroups,
            .out = out.data() + thread * rows * kPanelOutputs});
    }
  });
  return limits;
}

PlanSpeed MeasurePlan(const Plan& plan, int batch, double seconds, bool roofline) {
  PlanMemory memory(plan, batch);
  Rng rng(1);
  const MatrixView input = memory.input();
  for (int64_t r = 0; r < batch; ++r) {
    for (float& x : input.Row(r)) x = static_cast<float>(rng.Normal());
  }
  Matrix scores(batch, plan.out_dim());
  PlanState state(plan);
  PlanState* const states[] = {&state};
  // Of a sequential plan: one stream, in pieces of the batch's size.
  const auto run = [&] {
    if (!plan.sequential()) return plan.Run(batch, memory, scores);
    int rows[] = {batch};
    plan.RunStreams(rows, states, memory, scores);
  };
  run();
  std::vector<double> runs;
  std::vector<std::vector<double>> steps(plan.num_steps());
  for (double spent = 0; spent < seconds || runs.size() < 5; spent += runs.back()) {
    memory.step_seconds.assign(plan.num_steps(), 0.0);
    const double start = Now();
    run();
    Softmax(true, scores, scores);
    runs.push_back(Now() - start);
    for (size_t i = 0; i < steps.size(); ++i) steps[i].push_back(memory.step_seconds[i]);
  }
  PlanSpeed speed;
  speed.frames_per_second = batch / Median(runs);
  speed.runs = static_cast<int>(runs.size());
  speed.workspace_bytes = static_cast<int64_t>(memory.bytes());
  speed.state_bytes = static_cast<int64_t>(state.bytes());
  const MachineLimits limits = roofline ? MeasureLimits(plan.options().precision, plan.options().isa) : MachineLimits();
  double rows = batch;
  for (size_t i = 0; i < steps.size(); ++i) {
    rows /= plan.step(i).stride();
    StepSpeed step;
    step.info = plan.step(i).Info();
    step.seconds = Median(steps[i]);
    speed.weight_bytes += step.info.weight_bytes;
    if (roofline) {
      const double reading = static_cast<double>(step.info.weight_bytes) / limits.bytes_per_second;
      const double computing = static_cast<double>(step.info.done_operations) * rows / limits.operations_per_second;
      step.roofline_share = std::max(reading, computing) / step.seconds;
    }
    speed.steps.push_back(std::move(step));
  }
  return speed;
}

}  // namespace antiphon::infer
