// "gru": the input product of all frames at once, then frame by frame, all streams that have one. A stream keeps its
// last output.
#include <algorithm>

#include "infer/steps/recurrent_step.h"
#include "kernels/recurrent_cell.h"

namespace antiphon::infer {
namespace {

class GruStep : public PlanStep {
 public:
  explicit GruStep(const StepArgs& args)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        input_(args, args.Get("weight"), args.Bias()),
        recurrent_(args, args.Get("recurrent"), args.Get("recurrent_bias").Row(0)) {}

  bool sequential() const override { return true; }
  void Begin(StepState& state) const override { state.values.assign(static_cast<size_t>(out_dim()), 0.0F); }
  void Run(const Rows&, const Rows&, std::byte*) const override {}

  int64_t scratch_bytes(int rows) const override {
    return 3 * RowsBytes(rows, 3 * out_dim()) + 2 * RowsBytes(rows, out_dim()) +
           std::max(input_.scratch_bytes(rows), recurrent_.scratch_bytes(rows)) + 64 * 6;
  }

  void RunStreams(const Rows& in, const StreamRows& streams, const Rows& out, std::byte* scratch) const override {
    ScratchPieces pieces(scratch);
    const Rows all_gates = pieces.Floats(in.rows, 3 * out_dim());
    Rows gates = pieces.Floats(in.rows, 3 * out_dim()), product = pieces.Floats(in.rows, 3 * out_dim());
    Rows old_out = pieces.Floats(in.rows, out_dim()), new_out = pieces.Floats(in.rows, out_dim());
    std::byte* const rest = pieces.Bytes(0);
    input_.Run(in, all_gates, rest);
    thread_local std::vector<ActiveRow> active;
    ForFrames(streams.rows, active, [&](std::span<const ActiveRow> rows) {
      for (Rows* m : {&gates, &product, &old_out, &new_out}) m->rows = static_cast<int>(rows.size());
      for (int i = 0; i < gates.rows; ++i) {
        const ActiveRow& row = rows[static_cast<size_t>(i)];
        std::copy_n(streams.states[row.stream]->values.data(), out_dim(), old_out.Row<float>(i));
        std::copy_n(all_gates.Row<float>(row.row), 3 * out_dim(), gates.Row<float>(i));
      }
      recurrent_.Run(old_out, product, rest);
      CpuKernel<GruForwardOp>()({gates.Floats(), product.Floats(), old_out.Floats(), new_out.Floats()});
      for (int i = 0; i < gates.rows; ++i) {
        const ActiveRow& row = rows[static_cast<size_t>(i)];
        std::copy_n(new_out.Row<float>(i), out_dim(), streams.states[row.stream]->values.data());
        std::copy_n(new_out.Row<float>(i), out_dim(), out.Row<float>(row.row));
      }
    });
  }

  StepInfo Info() const override {
    const int64_t operations = 6 * out_dim() * (in_dim() + out_dim());
    return {name_,
            "gru " + std::string(PlanPrecisionName(input_.weights().type())),
            input_.weights().variant(),
            input_.weights().bytes() + recurrent_.weights().bytes(),
            operations,
            operations};
  }

 private:
  std::string name_;
  RowProduct input_;
  RowProduct recurrent_;
};

REGISTER_COMPONENT(StepRegistry, "gru", [](const StepArgs& args) { return std::make_unique<GruStep>(args); });

}  // namespace
}  // namespace antiphon::infer
