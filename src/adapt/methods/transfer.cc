// Goes on training from the model's values: all layers, or only the top or bottom ones, each as fast as told; the
// output layer is made anew for another set of senones.
//
// A new output layer starts at zero: all senones alike, nothing that the layers below would have to unlearn.
// Source: algorithms reference 3.1.
#include "adapt/layer_groups.h"
#include "base/error.h"

namespace antiphon::adapt {
namespace {

struct TransferOptions {
  LayerChoiceOptions choice;
  bool new_output = false;
  template <class V>
  void Visit(V& v) {
    choice.Visit(v);
    v("new-output", new_output, "make the output layer anew even if the senones are the model's");
  }
};

class Transfer : public Method {
 public:
  explicit Transfer(const TransferOptions& options) : options_(options) {}

  Preparation Prepare(nn::Model& model, const MethodInput& input) const override {
    Preparation preparation;
    std::vector<nn::LayerParts> parts = nn::TakeApart(model.network);
    ChooseLearning(model.network, options_.choice, parts, preparation.changes);
    const int num_pdfs = input.num_pdfs > 0 ? input.num_pdfs : model.num_pdfs();
    const bool anew = options_.new_output || HasOtherSenones(model, num_pdfs, input.hmm_json);
    if (anew) ReplaceOutput(model, num_pdfs, parts, preparation.changes);
    if (preparation.changes.empty()) preparation.changes.push_back({"all layers", "go on learning"});
    model.network = nn::PutTogether(parts, model.network.in_dim());
    if (!anew) return preparation;
    model.log_priors.clear();
    if (!input.hmm_json.empty()) model.hmm_json = input.hmm_json;
    return preparation;
  }

 private:
  void ReplaceOutput(const nn::Model& model, int num_pdfs, std::vector<nn::LayerParts>& parts,
                     std::vector<Change>& changes) const {
    if (model.frames_per_forward > 1) throw UsageError("a network that scores several frames keeps its output layer");
    if (options_.choice.train == "bottom") throw UsageError("a new output layer must learn: train = 'top' or 'all'");
    nn::LayerParts& output = parts.back();
    if (!nn::IsDense(output)) {
      Throw<InputError>("the last layer '{}' is of type '{}', which no new one replaces", output.name, output.type);
    }
    output = nn::MakeLayer(output, output.name, "affine", Config::Parse(fmt::format("dim = {}", num_pdfs), "output"));
    changes.push_back({output.name, fmt::format("made anew for {} senones (before: {})", num_pdfs, model.num_pdfs())});
  }

  TransferOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "transfer", [](const Config& config) {
  return std::make_unique<Transfer>(ReadOptions<TransferOptions>(config));
});

}  // namespace
}  // namespace antiphon::adapt
