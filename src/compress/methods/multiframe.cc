// Multiframe network: one pass scores `frames` consecutive frames, with an output layer for each on a common trunk.
//
// The heads begin as copies of the output layer, which is right for the frame in the middle and must be retrained for
// the others. `first` says which frame the first head is for, relative to the middle of the window: 0 looks ahead,
// −(K−1) back; by default the middle lies among them. Only for networks of one window of frames: what looks at frames
// one by one computes each of them once anyway. Source: Vanhoucke, Devin, Heigold, Multiframe deep neural networks for
// acoustic modeling, ICASSP 2013; algorithms reference 2.12.
#include "base/error.h"
#include "base/options.h"
#include "compress/method.h"
#include "compress/network_parts.h"

namespace antiphon::compress {
namespace {

struct MultiframeOptions {
  int frames = 2;
  std::string first = "middle";
  template <class V>
  void Visit(V& v) {
    v("frames", frames, Range{1, 64}, "frames scored by one pass");
    v("first", first, OneOf{{"middle", "ahead", "back"}}, "where they lie around the middle of the window");
  }
};

class Multiframe : public Method {
 public:
  explicit Multiframe(const MultiframeOptions& options) : options_(options) {}
  bool keeps_output() const override { return options_.frames == 1; }

  Changes Apply(nn::Model& model, const MethodInput&) const override {
    if (model.frames_per_forward != 1) {
      Throw<InputError>("method 'multiframe': the model scores {} frames in one pass already: it takes no more heads",
                        model.frames_per_forward);
    }
    RequireOneWindow(model.network);
    std::vector<LayerParts> parts = TakeApart(model.network);
    LayerParts& output = parts.back();
    if (TraitsOf(output).product != nn::LayerTraits::Product::kPlain || !output.tensors.contains("bias")) {
      Throw<InputError>(
          "method 'multiframe': the output layer '{}' is '{}': add heads to an affine one, before other methods",
          output.name, output.type);
    }
    const int64_t heads = options_.frames;
    const Matrix& w = output.weight();
    const Matrix bias = BiasOf(output);
    Matrix weights(heads * w.rows(), w.cols());
    Matrix biases(1, heads * w.rows());
    for (int64_t k = 0; k < heads; ++k) {
      std::copy_n(w.data(), w.size(), weights.Row(k * w.rows()).data());
      std::copy_n(bias.data(), bias.size(), biases.data() + k * w.rows());
    }
    Config config;
    config.Set("dim", std::to_string(weights.rows()));
    output = MakeLayer(output, output.name, output.type, config);
    output.tensors["weight"] = std::move(weights);
    output.tensors["bias"] = std::move(biases);
    model.network = PutTogether(parts, model.network.in_dim());
    model.frames_per_forward = options_.frames;
    model.first_frame_offset = options_.first == "ahead" ? 0 : 1 - options_.frames;
    if (options_.first == "middle") model.first_frame_offset /= 2;
    return {{parts.back().name, fmt::format("{} heads, for the frames from {} on", heads, model.first_frame_offset)}};
  }

 private:
  static void RequireOneWindow(const nn::Network& network) {
    for (size_t i = 0; i < network.num_layers(); ++i) {
      if (network.layer(i).time_context().one_to_one() && !network.layer(i).recurrent()) continue;
      Throw<InputError>(
          "method 'multiframe': layer '{}' ({}) looks at other frames of the utterance, and heads are for networks of "
          "one window of frames (data.left-context, data.right-context): leave this method out, or train the network "
          "with a stride, which gives one output for several frames",
          network.layer_name(i), network.layer_type(i));
    }
  }

  MultiframeOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "multiframe", [](const Config& config) {
  return std::make_unique<Multiframe>(ReadOptions<MultiframeOptions>(config));
});

}  // namespace
}  // namespace antiphon::compress
