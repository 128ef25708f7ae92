// A linear layer behind a hidden layer (linear hidden network), learned from new speech; the rest of the model is
// frozen.
//
// Starts as the identity. Source: Gemello, Mana, Scanzi, Laface, De Mori, Linear hidden transformations for adaptation
// of hybrid ANN/HMM models, Speech Communication 2007; algorithms reference 3.2.
#include "adapt/layer_groups.h"
#include "base/error.h"

namespace antiphon::adapt {
namespace {

struct LhnOptions {
  std::string layer;
  double rate = 1.0;
  template <class V>
  void Visit(V& v) {
    v("layer", layer, "activation behind which it stands; empty: the last one");
    v("rate", rate, Range{0.0001, 1e6}, "factor on the learning rate");
  }
};

class Lhn : public Method {
 public:
  explicit Lhn(const LhnOptions& options) : options_(options) {}
  bool makes_profile() const override { return true; }

  Preparation Prepare(nn::Model& model, const MethodInput& input) const override {
    RequireSameSenones(model, input, "lhn");
    std::vector<nn::LayerParts> parts = nn::TakeApart(model.network);
    std::vector<std::string> only;
    if (!options_.layer.empty()) only.push_back(options_.layer);
    const size_t place = HiddenOutputs(parts, only, "layer").back();
    const int dim = model.network.layer(place).out_dim();
    FreezeAll(parts);
    nn::LayerParts layer = NewLayer(nn::FreeName(parts, "lhn"), "affine", fmt::format("dim = {}", dim), options_.rate);
    Matrix identity(dim, dim);
    for (int i = 0; i < dim; ++i) identity(i, i) = 1;
    layer.tensors.emplace("weight", std::move(identity));
    Preparation preparation;
    preparation.changes = {{parts[place].name, fmt::format("{0} × {0} behind it", dim)}};
    parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(place) + 1, std::move(layer));
    model.network = nn::PutTogether(parts, model.network.in_dim());
    return preparation;
  }

 private:
  LhnOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "lhn",
                   [](const Config& config) { return std::make_unique<Lhn>(ReadOptions<LhnOptions>(config)); });

}  // namespace
}  // namespace antiphon::adapt
