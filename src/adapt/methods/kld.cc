// Keeps the adapted model's posteriors near those of the model as it was: targets are (1 − ρ)·alignment + ρ·posteriors
// of the unadapted model. ρ = 0 is plain training, with ρ = 1 nothing changes; of several, held-out speech chooses.
//
// The unadapted model is a teacher at temperature 1 (nn/loss.h): ρ·KL(p_SI ‖ p) + (1 − ρ)·cross-entropy has the same
// gradient. Source: Yu, Yao, Su, Li, Seide, KL-divergence regularized deep neural network adaptation, ICASSP 2013;
// algorithms reference 3.3.
#include "adapt/layer_groups.h"
#include "base/error.h"

namespace antiphon::adapt {
namespace {

struct KldOptions {
  std::vector<double> rho = {0.125, 0.25, 0.5, 0.75};
  // With batch statistics of its own the model would not say the same as before even where nothing was learned.
  LayerChoiceOptions choice{.statistics = "old"};
  template <class V>
  void Visit(V& v) {
    v("rho", rho, Range{0, 1}, "share of the unadapted model in the targets; of a list, held-out speech chooses");
    choice.Visit(v);
  }
};

class Kld : public Method {
 public:
  explicit Kld(const KldOptions& options) : options_(options) {
    if (options.rho.empty()) throw UsageError("kld.rho is an empty list: give at least one value from 0 to 1");
  }

  Preparation Prepare(nn::Model& model, const MethodInput& input) const override {
    RequireSameSenones(model, input, "kld");
    Preparation preparation;
    preparation.original_shares = options_.rho;
    std::vector<nn::LayerParts> parts = nn::TakeApart(model.network);
    ChooseLearning(model.network, options_.choice, parts, preparation.changes);
    if (preparation.changes.empty()) preparation.changes.push_back({"all layers", "learn, held near what they said"});
    model.network = nn::PutTogether(parts, model.network.in_dim());
    return preparation;
  }

 private:
  KldOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "kld",
                   [](const Config& config) { return std::make_unique<Kld>(ReadOptions<KldOptions>(config)); });

}  // namespace
}  // namespace antiphon::adapt
