// Weights become blocks that repeat one column (`circulant-affine`): the nearest ones in least squares, each stored
// value the mean of the `block` places where it stands. Needs retraining. The first and the last layer stay as they are
// unless layers are named.
//
// Source: Ding et al., CirCNN, MICRO 2017; algorithms reference 2.9.
#include "base/error.h"
#include "base/options.h"
#include "compress/method.h"
#include "compress/network_parts.h"

namespace antiphon::compress {
namespace {

struct CirculantOptions {
  int block = 8;
  std::vector<std::string> layers;
  template <class V>
  void Visit(V& v) {
    v("block", block, Range{1, 4096}, "side of a block: as many times fewer weights");
    v("layers", layers, "names of the layers; empty: all affine ones but the first and the last");
  }
};

class Circulant : public Method {
 public:
  explicit Circulant(const CirculantOptions& options) : options_(options) {}
  bool keeps_output() const override { return options_.block == 1; }

  Changes Apply(nn::Model& model, const MethodInput&) const override {
    std::vector<LayerParts> parts = TakeApart(model.network, Shortcuts::kOpened);
    Changes changes;
    for (const size_t i : LayersFor("circulant", parts, PlainTypes(), {options_.layers, true, true})) {
      const Matrix& w = parts[i].weight();
      if (w.cols() % options_.block != 0) {
        Throw<UsageError>(
            "method 'circulant': layer '{}' has {} inputs, no multiple of blocks of {}: choose "
            "another circulant.block, or name the layers that it is to take (circulant.layers)",
            parts[i].name, w.cols(), options_.block);
      }
      Config config;
      config.Set("dim", std::to_string(w.rows()));
      config.Set("block", std::to_string(options_.block));
      LayerParts circulant = MakeLayer(parts[i], parts[i].name, "circulant-affine", config);
      circulant.tensors["bias"] = BiasOf(parts[i]);
      circulant.tensors["weight"] = Project(w);
      changes.push_back({parts[i].name, fmt::format("blocks of {}", options_.block)});
      parts[i] = std::move(circulant);
    }
    model.network = PutTogether(parts, model.network.in_dim());
    return changes;
  }

 private:
  // Of the last rows, whose block may be cut off, only those that there are count.
  Matrix Project(const Matrix& w) const {
    const int64_t b = options_.block;
    Matrix sums((w.rows() + b - 1) / b, w.cols());
    Matrix counts(sums.rows(), sums.cols());
    for (int64_t r = 0; r < w.rows(); ++r) {
      for (int64_t c = 0; c < w.cols(); ++c) {
        const int64_t place = c / b * b + (r - c % b + b) % b;
        sums(r / b, place) += w(r, c);
        counts(r / b, place) += 1;
      }
    }
    for (int64_t i = 0; i < sums.size(); ++i) sums.data()[i] /= std::max(counts.data()[i], 1.0f);
    return sums;
  }

  CirculantOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "circulant", [](const Config& config) {
  return std::make_unique<Circulant>(ReadOptions<CirculantOptions>(config));
});

}  // namespace
}  // namespace antiphon::compress
