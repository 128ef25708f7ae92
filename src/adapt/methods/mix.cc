// Puts new speech into the training on the old: much of it uniformly over the whole run, little of it into the last
// part, where it still counts when the run ends. How often each utterance comes is told, not left to chance.
//
// Source: algorithms reference 3.4.
#include "adapt/layer_groups.h"
#include "base/error.h"

namespace antiphon::adapt {
namespace {

struct MixOptions {
  std::string schedule = "auto";
  double tail = 0.1;
  int repeat = 1;
  double much = 0.3;
  LayerChoiceOptions choice;
  template <class V>
  void Visit(V& v) {
    v("schedule", schedule, OneOf{{"auto", "uniform", "tail"}},
      "new speech all over the run, or in its last part; auto: in the last part if it is little (see much)");
    v("tail", tail, Range{0.001, 1}, "schedule = 'tail': share of the run that is its last part");
    v("repeat", repeat, Range{1, 1000},
      "how often each new utterance comes in each pass over the old speech that has any of it");
    v("much", much, Range{0, 1000}, "schedule = 'auto': new frames per old frame from which on they go uniformly");
    choice.Visit(v);
  }
};

class Mix : public Method {
 public:
  explicit Mix(const MixOptions& options) : options_(options) {}
  bool needs_old_speech() const override { return true; }

  Preparation Prepare(nn::Model& model, const MethodInput& input) const override {
    const double fresh = Frames(RequireNewSpeech(input, "mix")), old = Frames(RequireOldSpeech(input, "mix"));
    RequireSameSenones(model, input, "mix");
    const bool tail = options_.schedule == "tail" || (options_.schedule == "auto" && fresh < options_.much * old);
    Preparation preparation;
    std::vector<nn::LayerParts> parts = nn::TakeApart(model.network);
    ChooseLearning(model.network, options_.choice, parts, preparation.changes);
    preparation.speech = Speech::kMixed;
    preparation.mixing = {tail ? options_.tail : 1.0, options_.repeat};
    preparation.changes.push_back(
        {"new speech",
         fmt::format("{:.0f} frames × {} {} {:.0f} old ones", fresh, options_.repeat,
                     tail ? fmt::format("in the last {:.4g} % of", 100 * options_.tail) : "spread over", old)});
    model.network = nn::PutTogether(parts, model.network.in_dim());
    return preparation;
  }

 private:
  static double Frames(AlignedSpeech& speech) {
    double frames = 0;
    speech.Rewind();
    while (const auto utterance = speech.Next()) frames += static_cast<double>(utterance->features.rows());
    return frames;
  }

  MixOptions options_;
};

REGISTER_COMPONENT(MethodRegistry, "mix",
                   [](const Config& config) { return std::make_unique<Mix>(ReadOptions<MixOptions>(config)); });

}  // namespace
}  // namespace antiphon::adapt
