// A factor between 0 and 2 on each hidden unit, learned from one speaker's speech; the shared model is frozen.
//
// Source: Swietojanski, Renals, SLT 2014; algorithms reference 3.2.
#include "adapt/layer_groups.h"
#include "base/error.h"

namespace antiphon::adapt {
namespace {

struct LhucOptions {
  std::vector<std::string> layers;
  double rate = 25.0;
  template <class V>
  void Visit(V& v) {
    v("layers", layers, "activations after which the factors stand; empty: all");
    v("rate", rate, Range{0.0001, 1e6}, "factor on the learning rate: the factors learn faster than weights");
  }
};

class LhucMethod : public Method {
 public:
  explicit LhucMethod(const LhucOptions& options) : options_(options) {}
  bool makes_profile() const override { return true; }

  Preparation Prepare(nn::Model& model, const MethodInput& input) const override {
    RequireSameSenones(model, input, "lhuc");
    Preparation preparation;
    std::vector<nn::LayerParts> parts = nn::TakeApart(model.network);
    const std::vector<size_t> places = HiddenOutputs(parts, options_.layers, "layers");
    FreezeAll(parts);
    for (size_t p = places.size(); p-- > 0;) {
      const auto at = parts.begin() + static_cast<std::ptrdiff_t>(places[p]);
      preparation.changes.insert(
          preparation.changes.begin(),
          {at->name, fmt::format("{} factors behind it", model.network.layer(places[p]).out_dim())});
      parts.insert(at + 1, NewLayer(nn::FreeName(parts, "lhuc"), "lhuc", "", options_.rate));
    }
    model.network = nn::PutTogether(parts, model.network.in_dim());
    return preparation;
  }

 private:
  LhucOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "lhuc",
                   [](const Config& config) { return std::make_unique<LhucMethod>(ReadOptions<LhucOptions>(config)); });

}  // namespace
}  // namespace antiphon::adapt
