// A linear layer before the network (linear input network), learned from one speaker's speech; the shared model is
// frozen. All frames of a window share one block.
//
// Source: Neto et al., Eurospeech 1995; algorithms reference 3.2.
#include "adapt/layer_groups.h"
#include "base/error.h"

namespace antiphon::adapt {
namespace {

struct LinOptions {
  double rate = 1.0;
  template <class V>
  void Visit(V& v) {
    v("rate", rate, Range{0.0001, 1e6}, "factor on the learning rate");
  }
};

class Lin : public Method {
 public:
  explicit Lin(const LinOptions& options) : options_(options) {}
  bool makes_profile() const override { return true; }

  Preparation Prepare(nn::Model& model, const MethodInput& input) const override {
    RequireSameSenones(model, input, "lin");
    std::vector<nn::LayerParts> parts = nn::TakeApart(model.network);
    FreezeAll(parts);
    InsertFrameTransform(model, options_.rate, parts);
    Preparation preparation;
    preparation.changes = {{parts.front().name, fmt::format("{0} × {0} before the network", model.feature_dim)}};
    model.network = nn::PutTogether(parts, model.network.in_dim());
    return preparation;
  }

 private:
  LinOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "lin",
                   [](const Config& config) { return std::make_unique<Lin>(ReadOptions<LinOptions>(config)); });

}  // namespace
}  // namespace antiphon::adapt
