// "lstm": the input product of all frames at once, then frame by frame, all streams that have one. A stream keeps its
// cells and its last output.
#include <algorithm>

#include "infer/steps/recurrent_step.h"
#include "kernels/recurrent_cell.h"

namespace antiphon::infer {
namespace {

class LstmStep : public PlanStep {
 public:
  explicit LstmStep(const StepArgs& args)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        cells_(args.Get("recurrent").rows() / 4),
        scale_(ConstMatrixView(args.Find("scale"))),
        bias_(args.Bias().begin(), args.Bias().end()),
        peepholes_(ConstMatrixView(args.Find("peepholes"))),
        input_(args, args.Get("weight"), scale_.empty() ? std::span<const float>(bias_) : std::span<const float>()),
        recurrent_(args, args.Get("recurrent"), {}) {
    const ConstMatrixView projection = args.Find("projection");
    if (!projection.empty()) projection_.emplace(args, projection, std::span<const float>());
  }

  bool sequential() const override { return true; }
  void Begin(StepState& state) const override { state.values.assign(static_cast<size_t>(cells_ + out_dim()), 0.0F); }
  void Run(const Rows&, const Rows&, std::byte*) const override {}

  int64_t scratch_bytes(int rows) const override {
    return 2 * RowsBytes(rows, 4 * cells_) + RowsBytes(rows, cells_) * 5 + 2 * RowsBytes(rows, out_dim()) +
           std::max({input_.scratch_bytes(rows), recurrent_.scratch_bytes(rows),
                     projection_ ? projection_->scratch_bytes(rows) : 0}) +
           64 * 12;
  }

  void RunStreams(const Rows& in, const StreamRows& streams, const Rows& out, std::byte* scratch) const override {
    ScratchPieces pieces(scratch);
    Memory memory{pieces.Floats(in.rows, 4 * cells_), pieces.Floats(in.rows, 4 * cells_),
                  pieces.Floats(in.rows, cells_),     pieces.Floats(in.rows, cells_),
                  pieces.Floats(in.rows, cells_),     pieces.Floats(in.rows, cells_),
                  pieces.Floats(in.rows, out_dim()),  pieces.Floats(in.rows, out_dim()),
                  pieces.Floats(in.rows, cells_),     pieces.Bytes(0)};
    InputGates(in, memory);
    thread_local std::vector<ActiveRow> active;
    ForFrames(streams.rows, active, [&](std::span<const ActiveRow> rows) { Frame(rows, streams, memory, out); });
  }

  StepInfo Info() const override {
    int64_t bytes = input_.weights().bytes() + recurrent_.weights().bytes();
    int64_t operations = 2 * cells_ * (in_dim() * (scale_.empty() ? 4 : 1) + 4 * out_dim());
    if (projection_) {
      bytes += projection_->weights().bytes();
      operations += 2 * cells_ * out_dim();
    }
    return {name_,
            "lstm " + std::string(PlanPrecisionName(input_.weights().type())),
            input_.weights().variant(),
            bytes,
            operations,
            operations};
  }

 private:
  struct Memory {
    Rows all_gates;  // of all frames; the rest: of the streams of one frame
    Rows gates, old_cell, cell, cell_tanh, m, old_out, new_out;
    Rows shared;
    std::byte* product;
  };

  static Rows First(Rows rows, size_t count) {
    rows.rows = static_cast<int>(count);
    return rows;
  }

  void InputGates(const Rows& in, const Memory& memory) const {
    if (scale_.empty()) return input_.Run(in, memory.all_gates, memory.product);
    input_.Run(in, memory.shared, memory.product);
    for (int r = 0; r < in.rows; ++r) {
      const float* from = memory.shared.Row<float>(r);
      float* to = memory.all_gates.Row<float>(r);
      for (int64_t k = 0; k < 4; ++k) {
        const float* s = scale_.Row(k).data();
        const float* b = bias_.data() + k * cells_;
        for (int64_t c = 0; c < cells_; ++c) *to++ = s[c] * from[c] + b[c];
      }
    }
  }

  void Frame(std::span<const ActiveRow> active, const StreamRows& streams, const Memory& m, const Rows& out) const {
    const size_t count = active.size();
    for (size_t i = 0; i < count; ++i) {
      const float* state = streams.states[active[i].stream]->values.data();
      const int row = static_cast<int>(i);
      std::copy_n(state, cells_, m.old_cell.Row<float>(row));
      std::copy_n(state + cells_, out_dim(), m.old_out.Row<float>(row));
    }
    const Rows gates = First(m.gates, count);
    recurrent_.Run(First(m.old_out, count), gates, m.product);
    for (size_t i = 0; i < count; ++i) {
      const float* from = m.all_gates.Row<float>(active[i].row);
      float* to = gates.Row<float>(static_cast<int>(i));
      for (int64_t c = 0; c < 4 * cells_; ++c) to[c] += from[c];
    }
    const Rows cell = First(m.cell, count), cell_out = First(projection_ ? m.m : m.new_out, count);
    CpuKernel<LstmForwardOp>()({gates.Floats(), peepholes_, First(m.old_cell, count).Floats(), cell.Floats(),
                                First(m.cell_tanh, count).Floats(), cell_out.Floats()});
    if (projection_) projection_->Run(cell_out, First(m.new_out, count), m.product);
    for (size_t i = 0; i < count; ++i) {
      float* state = streams.states[active[i].stream]->values.data();
      const int row = static_cast<int>(i);
      std::copy_n(cell.Row<float>(row), cells_, state);
      std::copy_n(m.new_out.Row<float>(row), out_dim(), state + cells_);
      std::copy_n(m.new_out.Row<float>(row), out_dim(), out.Row<float>(active[i].row));
    }
  }

  std::string name_;
  int64_t cells_;
  Matrix scale_;
  std::vector<float> bias_;
  Matrix peepholes_;
  RowProduct input_;
  RowProduct recurrent_;
  std::optional<RowProduct> projection_;
};

REGISTER_COMPONENT(StepRegistry, "lstm", [](const StepArgs& args) { return std::make_unique<LstmStep>(args); });

}  // namespace
}  // namespace antiphon::infer
