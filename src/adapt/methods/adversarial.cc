// Hidden features that do not tell the new speech from the old: the model goes on learning the senones of old speech,
// while a classifier tries to tell, from a hidden layer, which frames are new, and the layers below learn to mislead
// it. It needs no transcripts: what the model itself recognises balances what the classifier sees and is learnt beside
// the old speech. With `balance` and `learn` off, nothing of the new speech but its sound is used.
//
// Source: Ganin, Lempitsky, Unsupervised domain adaptation by backpropagation, ICML 2015; algorithms
// reference 1.25, 3.6.
#include "adapt/method.h"

namespace antiphon::adapt {
namespace {

struct AdversarialOptions {
  SideTaskOptions head;
  AdversarialOptions() {
    head.balance = true;
    head.learn = 1;
  }
  template <class V>
  void Visit(V& v) {
    head.VisitHead(v);
  }
};

class Adversarial : public Method {
 public:
  explicit Adversarial(const AdversarialOptions& options) : options_(options) {
    options_.head.task = "domain";
    options_.head.adversarial = true;
  }
  bool needs_old_speech() const override { return true; }
  bool needs_words() const override { return options_.head.reads_pdf_ids(); }

  Preparation Prepare(nn::Model& model, const MethodInput& input) const override {
    RequireOldSpeech(input, "adversarial");
    Preparation preparation;
    preparation.speech = Speech::kOldAndNewUnlabelled;
    preparation.side_task = options_.head;
    preparation.changes = {
        {SideTaskPlace(model.network, options_.head), "a domain classifier looks at it while training"}};
    return preparation;
  }

 private:
  AdversarialOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "adversarial", [](const Config& config) {
  return std::make_unique<Adversarial>(ReadOptions<AdversarialOptions>(config));
});

}  // namespace
}  // namespace antiphon::adapt
