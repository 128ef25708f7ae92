// Student: a new, smaller network in place of the trained one, which teaches it in retraining (--distill).
//
// What stands below the first affine layer (normalisation of the features) and the output layer's number of classes
// and heads are kept; between them come `layers` hidden layers of `dim`, the same layers in each as the old network has
// above its first affine one (activation, normalisation, dropout). `low-rank` puts a linear layer below the output.
// Weights are drawn, so that nothing is known before retraining. Source: Li, Zhao, Huang, Gong, Learning small-size DNN
// with output-distribution-based criteria, Interspeech 2014; algorithms reference 2.5.
#include "base/error.h"
#include "base/options.h"
#include "compress/method.h"
#include "compress/network_parts.h"

namespace antiphon::compress {
namespace {

struct StudentOptions {
  int layers = 3;
  int dim = 128;
  int low_rank = 0;
  template <class V>
  void Visit(V& v) {
    v("layers", layers, Range{1, 100}, "hidden layers");
    v("dim", dim, Range{1, 1 << 20}, "outputs of each");
    v("low-rank", low_rank, Range{0, 1 << 20}, "outputs of a linear layer below the output layer; 0: none");
  }
};

bool HasWeights(const LayerParts& layer) { return layer.tensors.contains("weight"); }

class Student : public Method {
 public:
  explicit Student(const StudentOptions& options) : options_(options) {}

  Changes Apply(nn::Model& model, const MethodInput& input) const override {
    const std::vector<LayerParts> old = TakeApart(model.network);
    const std::vector<size_t> trained = WithWeights(old);
    std::string toml;
    for (size_t i = 0; i < trained[0]; ++i) toml += Table(old[i].config);
    for (int n = 0; n < options_.layers; ++n) {
      toml += AffineTable("affine", options_.dim);
      for (size_t i = trained[0] + 1; i < trained[1]; ++i) toml += Table(WithoutName(old[i]));
    }
    if (options_.low_rank > 0) toml += AffineTable("linear", options_.low_rank);
    const int out = model.network.out_dim();
    toml += AffineTable("affine", out);
    nn::Network network(Config::Parse(toml, "student"), model.network.in_dim(), out, input.seed);
    std::vector<LayerParts> parts = TakeApart(network);
    for (size_t i = 0; i < trained[0]; ++i) parts[i].tensors = old[i].tensors;
    model.network = PutTogether(parts, model.network.in_dim());
    return {{"student",
             fmt::format("{} hidden layers of {} in place of {}", options_.layers, options_.dim, trained.size() - 1)}};
  }

 private:
  // Indices of the layers that learn a matrix, the lowest and at least one more.
  static std::vector<size_t> WithWeights(const std::vector<LayerParts>& parts) {
    std::vector<size_t> found;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (HasWeights(parts[i]) && parts[i].type != "fixed-affine") found.push_back(i);
    }
    if (found.size() < 2) Throw<InputError>("the network has no hidden layer that a student could have too");
    return found;
  }
  static std::string Table(const Config& config) { return "[[layer]]\n" + config.ToToml() + "\n"; }
  static std::string AffineTable(const char* type, int dim) {
    return fmt::format("[[layer]]\ntype = \"{}\"\ndim = {}\n", type, dim);
  }
  static Config WithoutName(const LayerParts& layer) {
    // Names come anew; a repeated one would not be unique.
    Config config;
    for (const std::string& key : layer.config.Keys()) {
      if (key == "name") continue;
      const std::string text = *layer.config.AnyAsText(key);
      config.Set(key, key == "type" ? "\"" + text + "\"" : text);
    }
    return config;
  }

  StudentOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "student",
                   [](const Config& config) { return std::make_unique<Student>(ReadOptions<StudentOptions>(config)); });

}  // namespace
}  // namespace antiphon::compress
