// Rounds weights to 8 or 4 bits per row, and inputs to 8 bits with ranges from frames (compress/calibration.h).
//
// The layers become `quantized-affine`, or stay `sparse-affine` with 8-bit weights: what they compute here is what the
// integer kernels compute, so that accuracy is measured and retrained with the rounding in it. By default the first
// layer's inputs, the features, stay as they are. Batch normalisation goes into the weights first (`fold`), so that a
// layer's outputs are rounded where they are made.
// Source: algorithms reference 2.6.
#include "base/error.h"
#include "base/options.h"
#include "compress/calibration.h"
#include "compress/fold.h"
#include "compress/method.h"
#include "compress/network_parts.h"
#include "compress/statistics.h"

namespace antiphon::compress {
namespace {

struct QuantizeOptions {
  int weight_bits = 8;
  int input_bits = 8;
  std::string range = "percentile";
  double percentile = 0.9999;
  bool fold = true;
  bool first_inputs = false;
  bool skip_first = false;
  bool skip_last = false;
  std::vector<std::string> layers;
  template <class V>
  void Visit(V& v) {
    v("weight-bits", weight_bits, Range{4, 8}, "bits of a weight: 8 or 4");
    v("input-bits", input_bits, Range{0, 8}, "bits of a layer's input: 8, or 0 for inputs as they are");
    v("range", range, OneOf{{"minmax", "percentile", "kl"}}, "how inputs' ranges follow from the frames");
    v("percentile", percentile, Range{0.5, 1}, "share of the inputs within the range at each end");
    v("fold", fold, "put batch normalisation into the weights around it: faster; its statistics are fixed then");
    v("first-inputs", first_inputs, "round the lowest layer's inputs, the features, too");
    v("skip-first", skip_first, "leave the lowest layer as it is");
    v("skip-last", skip_last, "leave the output layer as it is");
    v("layers", layers, "names of the layers; empty: all that are affine, inside shortcuts too");
  }
};

class Quantize : public Method {
 public:
  explicit Quantize(const QuantizeOptions& options) : options_(options) {
    if ((options.weight_bits != 8 && options.weight_bits != 4) ||
        (options.input_bits != 8 && options.input_bits != 0)) {
      Throw<UsageError>("weights have 8 or 4 bits and inputs 8 or 0, found {} and {}", options.weight_bits,
                        options.input_bits);
    }
  }
  bool needs_frames() const override { return options_.input_bits > 0; }

  Changes Apply(nn::Model& model, const MethodInput& input) const override {
    std::vector<LayerParts> parts = TakeApart(model.network);
    Changes changes;
    if (options_.fold) {
      for (const std::string& name : FoldNormalization(model.network, parts)) {
        changes.push_back({name, "part of the weights around it"});
      }
    }
    const nn::Network network = PutTogether(parts, model.network.in_dim());
    parts = TakeApart(network, Shortcuts::kOpened);
    using enum nn::LayerTraits::Product;
    const std::vector<std::string> types = nn::TypesWith({kPlain, kMasked, kRounded});
    const auto layers = LayersFor("quantize", parts, types, {options_.layers, options_.skip_first, options_.skip_last});
    std::vector<Histogram> seen(parts.size());
    if (needs_frames()) {
      ForLayers(network, Shortcuts::kOpened, RequireFrames(input, "quantize"),
                [&](size_t i, ConstMatrixView x, ConstMatrixView) { seen[i].Add(x); });
    }
    const size_t lowest = LayersFor("quantize", parts, types, {}).front();
    for (const size_t i : layers) {
      const bool inputs = options_.input_bits > 0 && (i != lowest || options_.first_inputs);
      changes.push_back(Round(parts[i], inputs ? &seen[i] : nullptr));
    }
    model.network = PutTogether(parts, model.network.in_dim());
    return changes;
  }

 private:
  Change Round(LayerParts& layer, const Histogram* inputs) const {
    const bool sparse = layer.tensors.contains("mask");
    if (sparse && options_.weight_bits != 8) {
      Throw<UsageError>("method 'quantize': layer '{}' is sparse: its weights can have 8 bits, not {}", layer.name,
                        options_.weight_bits);
    }
    Config config;
    config.Set("dim", std::to_string(layer.weight().rows()));
    if (sparse) {
      config.Set("block-rows", std::to_string(layer.config.Int("block-rows").value_or(1)));
      config.Set("block-cols", std::to_string(layer.config.Int("block-cols").value_or(1)));
    }
    config.Set("weight-bits", std::to_string(options_.weight_bits));
    config.Set("input-bits", inputs != nullptr ? "8" : "0");
    LayerParts rounded = MakeLayer(layer, layer.name, sparse ? "sparse-affine" : "quantized-affine", config);
    rounded.tensors["bias"] = BiasOf(layer);
    if (sparse) rounded.tensors["mask"] = std::move(layer.tensors.at("mask"));
    rounded.tensors["weight"] = std::move(layer.tensors.at("weight"));
    std::string what = fmt::format("{}-bit weights", options_.weight_bits);
    if (inputs != nullptr) {
      const nn::InputRange range = inputs->Range(options_.range, options_.percentile);
      rounded.tensors["input_scale"] = Matrix(1, 1);
      rounded.tensors["input_zero"] = Matrix(1, 1);
      rounded.tensors["input_scale"](0, 0) = range.scale;
      rounded.tensors["input_zero"](0, 0) = range.zero;
      what += fmt::format(", 8-bit inputs from {:.3g} to {:.3g}", -range.zero * range.scale,
                          (255 - range.zero) * range.scale);
    }
    layer = std::move(rounded);
    return {layer.name, what};
  }

  QuantizeOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "quantize", [](const Config& config) {
  return std::make_unique<Quantize>(ReadOptions<QuantizeOptions>(config));
});

}  // namespace
}  // namespace antiphon::compress
