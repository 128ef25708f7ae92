#include "vad/speech_model.h"

#include <utility>

#include "base/config.h"
#include "base/error.h"
#include "nn/model.h"

namespace antiphon::vad {
namespace {

constexpr int kClasses = 2;

feat::FrontEnd FrontEndFor(const nn::Model& model) {
  if (model.feature_config.empty()) throw InputError("the model does not say what its features are");
  const auto options = ReadOptions<feat::FrontEndOptions>(Config::Parse(model.feature_config, "its features"));
  if (options.pitch_dim > 0) {
    throw InputError("the model's features have pitch, which is known at the end of a recording only");
  }
  return feat::FrontEnd(options);
}

void RequireTwoClasses(const nn::Model& model) {
  if (!model.hmm_json.empty()) {
    throw InputError("this model knows phones and states: it recognises words, and does not tell speech from noise");
  }
  if (model.num_pdfs() != kClasses) {
    Throw<InputError>("the model tells {} classes apart, expected 2: other sound (0) and speech (1)", model.num_pdfs());
  }
  // What was said before would be another one's, or not known yet.
  if (!model.speaker_model.empty() || !model.ivector_extractor.empty())
    throw InputError("the model is for known speakers; speech is told from other sound without");
}

}  // namespace

SpeechModel::SpeechModel(feat::FrontEnd front_end, std::shared_ptr<const infer::NnetModel> network)
    : front_end_(std::move(front_end)), network_(std::move(network)) {}

std::shared_ptr<const SpeechModel> SpeechModel::Load(const std::filesystem::path& file) {
  return WithContext(
      [&] {
        nn::Model model = nn::Model::Load(file);
        RequireTwoClasses(model);
        feat::FrontEnd front_end = FrontEndFor(model);
        if (front_end.dim() != model.feature_dim) {
          Throw<InputError>("the network takes {} features per frame, its front end gives {}", model.feature_dim,
                            front_end.dim());
        }
        infer::NnetScorerOptions options;
        options.prior_scale = 0;  // posteriors as they are
        auto network = std::make_shared<const infer::NnetModel>(std::move(model), options);
        if (network->subsampling() != 1) throw InputError("the network skips frames");
        return std::shared_ptr<const SpeechModel>(new SpeechModel(std::move(front_end), std::move(network)));
      },
      [&] { return fmt::format("'{}' as a model of speech and other sound", file.string()); });
}

}  // namespace antiphon::vad
