// Weights become signs with a scale per row (`binary-affine`), inputs too if asked for. Needs retraining: the accuracy
// before it is no guide. The first and the last layer stay as they are unless layers are named.
//
// Source: Rastegari, Ordonez, Redmon, Farhadi, XNOR-Net, ECCV 2016; algorithms reference 2.8.
#include "base/options.h"
#include "compress/method.h"
#include "compress/network_parts.h"

namespace antiphon::compress {
namespace {

struct BinarizeOptions {
  bool inputs = false;
  std::vector<std::string> layers;
  template <class V>
  void Visit(V& v) {
    v("inputs", inputs, "inputs by their sign too");
    v("layers", layers, "names of the layers; empty: all affine ones but the first and the last");
  }
};

class Binarize : public Method {
 public:
  explicit Binarize(const BinarizeOptions& options) : options_(options) {}

  Changes Apply(nn::Model& model, const MethodInput&) const override {
    std::vector<LayerParts> parts = TakeApart(model.network, Shortcuts::kOpened);
    Changes changes;
    for (const size_t i : LayersFor("binarize", parts, PlainTypes(), {options_.layers, true, true})) {
      Config config;
      config.Set("dim", std::to_string(parts[i].weight().rows()));
      config.Set("binary-input", options_.inputs ? "true" : "false");
      LayerParts binary = MakeLayer(parts[i], parts[i].name, "binary-affine", config);
      binary.tensors["bias"] = BiasOf(parts[i]);
      binary.tensors["weight"] = std::move(parts[i].tensors.at("weight"));
      parts[i] = std::move(binary);
      changes.push_back({parts[i].name, options_.inputs ? "1-bit weights and inputs" : "1-bit weights"});
    }
    model.network = PutTogether(parts, model.network.in_dim());
    return changes;
  }

 private:
  BinarizeOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "binarize", [](const Config& config) {
  return std::make_unique<Binarize>(ReadOptions<BinarizeOptions>(config));
});

}  // namespace
}  // namespace antiphon::compress
