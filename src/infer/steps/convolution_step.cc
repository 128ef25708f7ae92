// "convolution": the patches of every output position as rows of a dense product. A stream keeps the last frames that
// came, if filters see several.
#include <algorithm>

#include "infer/steps/kept_frames.h"
#include "infer/steps/recurrent_step.h"
#include "nn/layers/convolution_geometry.h"

namespace antiphon::infer {
namespace {

nn::ConvolutionGeometry GeometryOf(const StepArgs& args) {
  return {ReadOptions<nn::ConvolutionOptions>(args.LayerConfig()), args.in_dim()};
}

class ConvolutionStep : public PlanStep {
 public:
  explicit ConvolutionStep(const StepArgs& args)
      : PlanStep(args.in_dim(), args.out_dim()),
        name_(args.network.layer_name(args.layer)),
        geometry_(GeometryOf(args)),
        product_(args, args.Get("weight"), args.Bias(), args.activation) {}

  bool sequential() const override { return !geometry_.context.one_to_one(); }
  void Begin(StepState& state) const override { KeptFrames::Begin(geometry_.context, in_dim(), state); }

  int64_t scratch_bytes(int /*rows*/) const override {
    const int patches = geometry_.out_height();
    return RowsBytes(patches, geometry_.patch()) + RowsBytes(patches, geometry_.options.filters) +
           product_.scratch_bytes(patches) + 64 * 3;
  }

  void Run(const Rows& in, const Rows& out, std::byte* scratch) const override {
    for (int r = 0; r < in.rows; ++r) {
      Frame([&](int) { return in.Row<float>(r); }, out.Row<float>(r), scratch);
    }
  }

  void RunStreams(const Rows& in, const StreamRows& streams, const Rows& out, std::byte* scratch) const override {
    int first = 0, given = 0;
    for (size_t s = 0; s < streams.rows.size(); ++s) {
      KeptFrames frames(geometry_.context, in, first, streams.rows[s], *streams.states[s]);
      first += streams.rows[s];
      for (int j = 0; j < frames.outputs(); ++j) {
        Frame([&](int offset) { return frames.Of(j, offset); }, out.Row<float>(given + j), scratch);
      }
      streams.rows[s] = frames.outputs();
      given += frames.outputs();
      frames.Keep();
    }
  }

  StepInfo Info() const override {
    const int64_t operations = int64_t{2} * geometry_.out_dim() * geometry_.patch();
    return {name_,
            "convolution " + std::string(PlanPrecisionName(product_.weights().type())),
            product_.weights().variant(),
            product_.weights().bytes(),
            operations,
            operations};
  }

 private:
  // One output frame; `frame(offset)` is the input frame at an offset.
  template <class Frames>
  void Frame(Frames frame, float* to, std::byte* scratch) const {
    ScratchPieces pieces(scratch);
    const Rows patches = pieces.Floats(geometry_.out_height(), geometry_.patch());
    const Rows out = pieces.Floats(geometry_.out_height(), geometry_.options.filters);
    for (int k = 0; k < geometry_.num_offsets(); ++k) {
      geometry_.GatherFrame(frame(geometry_.options.offsets[static_cast<size_t>(k)]), int64_t{k} * geometry_.window(),
                            patches.Floats());
    }
    product_.Run(patches, out, pieces.Bytes(0));
    for (int h = 0; h < out.rows; ++h) to = std::copy_n(out.Row<float>(h), geometry_.options.filters, to);
  }

  std::string name_;
  nn::ConvolutionGeometry geometry_;
  RowProduct product_;
};

REGISTER_COMPONENT(StepRegistry, "convolution",
                   [](const StepArgs& args) { return std::make_unique<ConvolutionStep>(args); });

}  // namespace
}  // namespace antiphon::infer
