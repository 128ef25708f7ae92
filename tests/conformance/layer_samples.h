// Every registered layer with keys to try it with, and what its tests share.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nn/network.h"

namespace antiphon::nn {

// The keys that a layer from 12 values is tried with. A new layer of the library adds its line here; one that is
// registered by a test calls AddSample.
inline std::map<std::string, std::vector<std::string>>& MutableSamples() {
  static std::map<std::string, std::vector<std::string>> samples = {
      {"affine", {"dim = 7", "dim = 1\nbias-init = 0.5"}},
      {"linear", {"dim = 5", "dim = 4\northonormal = true"}},
      {"relu", {""}},
      {"sigmoid", {""}},
      {"tanh", {""}},
      {"p-norm", {"dim = 4", "dim = 6\np = 3.0", "dim = 12\np = 1.0"}},
      {"renorm", {"", "target-rms = 0.5"}},
      {"batch-norm", {"", "affine = true\ntarget-rms = 0.7", "affine = true\ncolumns = 4"}},
      {"dropout",
       {"proportion = 0.3", "proportion = 0.5\nper-frame = true",
        "proportion = 0.3\nper-chunk = true\ncontinuous = true"}},
      {"inverse-cosine", {"", "cepstra = 7\nlifter = 0.0"}},
      {"softmax", {""}},
      {"spec-mask",
       {"feature-dim = 4\nmax-bands = 2\nmax-frames = 1", "",
        "feature-dim = 9\nper-chunk = true\nmax-bands = 5\nmax-frame-share = 0.5"}},
      {"log-softmax", {""}},
      {"fixed-affine", {"dim = 9", ""}},
      {"normalize", {""}},
      {"quantized-affine", {"dim = 7", "dim = 5\nweight-bits = 4\ninput-bits = 0"}},
      {"sparse-affine", {"dim = 7", "dim = 6\nblock-rows = 3\nblock-cols = 4"}},
      {"binary-affine", {"dim = 7", "dim = 5\nbinary-input = true"}},
      {"splice", {"", "offsets = [-3, 0, 1]\nstride = 2", "offsets = [1, 2]"}},
      {"lstm",
       {"dim = 5\nprojection = 3", "dim = 4\npeepholes = false", "dim = 4\nprojection = 3\nshare-gates = true"}},
      {"gru", {"dim = 5"}},
      {"bidirectional",
       {"right = 2\nlayers = [{type = 'gru', dim = 3, clip = 0}]",
        "right = 0\nlayers = [{type = 'lstm', dim = 3, projection = 2, clip = 0}, {type = 'affine', dim = 2}]"}},
      {"convolution",
       {"filters = 4", "channels = 3\nfilters = 2\nwindow = 2\nstride = 2\noffsets = [-1, 0, 2]",
        "channels = 2\nchannels-first = true\nfilters = 3\npad = false\nstride = 2"}},
      {"pooling", {"channels = 2\nwindow = 2\nfunction = 'average'", "channels = 3\nfunction = 'average'\nstride = 1"}},
      {"residual",
       {"scale = 0.5\nlayers = [{type = 'tdnn', dim = 12, offsets = [-1, 0, 2]}, {type = 'sigmoid'}]",
        "layers = [{type = 'gru', dim = 12, clip = 0}]"}},
      {"ensemble",
       {"members = [{layers = [{type = 'affine', dim = 5}], weight = 2.0}, "
        "{layers = [{type = 'splice', offsets = [-2, 1]}, {type = 'affine', dim = 5}, {type = 'tanh'}]}]",
        "members = [{layers = [{type = 'splice', offsets = [-1, 0], stride = 2}, {type = 'affine', dim = 4}]}, "
        "{layers = [{type = 'splice', offsets = [0, 3], stride = 2}, {type = 'affine', dim = 4}, {type = 'sigmoid'}]}]",
        "members = [{layers = [{type = 'gru', dim = 4, clip = 0}]}, {layers = [{type = 'tdnn', dim = 4}]}]"}},
      {"lhuc", {""}},
      {"frame-affine", {"dim = 4", "dim = 12"}},
      {"gradient-reversal", {"", "most = -1.0\ngamma = 0.0"}},
      {"side-task",
       {"task = 'speaker'\nclasses = 3", "task = 'domain'\nclasses = 2\nhidden-dim = 0\nadversarial = true",
        "task = 'cross-entropy'\nclasses = 4\nlayers = [{type = 'prefinal', dim = 6, bottleneck = 3}, "
        "{type = 'affine', learning-rate-factor = 5.0}]"}},
      {"circulant-affine", {"dim = 7\nblock = 4", "dim = 6\nblock = 1", "dim = 5\nblock = 12"}},
  };
  return samples;
}
inline const std::map<std::string, std::vector<std::string>>& Samples() { return MutableSamples(); }
inline bool AddSample(const std::string& type, const std::vector<std::string>& keys) {
  return MutableSamples().emplace(type, keys).second;
}

constexpr int kInDim = 12;

inline std::unique_ptr<Layer> Make(const std::string& type, const std::string& keys) {
  const Config config = Config::Parse("type = \"" + type + "\"\n" + keys + "\n", "sample");
  auto layer = LayerRegistry::Get().Create(type, LayerArgs{kInDim, config, 0, 3});
  // Values that are neither 0 nor equal, in buffers too.
  Rng rng(9);
  for (Parameter* p : layer->parameters()) {
    for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] += 0.2f * static_cast<float>(rng.Normal());
    p->MarkChanged();
  }
  if (!layer->has_statistics()) {
    for (Parameter* p : layer->buffers()) {
      for (int64_t i = 0; i < p->value.size(); ++i) p->value.data()[i] += 0.2f * static_cast<float>(rng.Normal());
      p->MarkChanged();
    }
  }
  return layer;
}

// Asymmetric, and away from the kinks at 0.
inline Matrix Inputs(int64_t rows, int64_t cols, uint64_t seed) {
  Rng rng(seed);
  Matrix m(rows, cols);
  for (int64_t i = 0; i < m.size(); ++i) {
    const double v = rng.Normal() + 0.3;
    m.data()[i] = static_cast<float>(v + (v < 0 ? -0.25 : 0.25));
  }
  return m;
}

// Keeps what the layer hands over, as dense gradients by parameter.
class Collector : public GradientSink {
 public:
  void TakeFactors(Parameter& weight, Parameter* bias, const GradientFactors& factors) override {
    Matrix& g = gradients[&weight];
    g = Matrix(weight.value.rows(), weight.value.cols());
    FactorProduct(factors, 0, 0.0f, g);
    if (bias == nullptr) return;
    gradients[bias] = Matrix(1, bias->value.cols());
    BiasGradient(factors, 1.0f, 0.0f, gradients[bias]);
  }
  void TakeDense(Parameter& p, ConstMatrixView gradient) override { gradients[&p] = Matrix(gradient); }
  std::map<const Parameter*, Matrix> gradients;
};

}  // namespace antiphon::nn
