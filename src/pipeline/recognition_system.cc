#include "pipeline/recognition_system.h"

#include "pipeline/load_rescorer.h"
#include "pipeline/written_words.h"

namespace antiphon::pipeline {

RecognitionSystem::RecognitionSystem(const std::string& model_file, const std::string& graph_folder,
                                     const RecognitionOptions& options)
    : options_(options),
      model_(AcousticModel::Load(model_file, options.nnet)),
      graph_(LoadGraph(graph_folder, model_->hmm(), options.changes, options.recognize.bias)),
      weights_(ResultWeights(options, model_->hmm())),
      rescorer_(LoadRescorer(options.rescore_arpa, options.graph_arpa, graph_)),
      bias_(decode::MakeBias(graph_, options.recognize.bias)),
      written_(LoadWrittenForm(options.written, options.bundles_written, graph_)),
      activity_(VoiceActivity::Load(options.vad, LeastContrast(options))),
      feature_shift_s_(FeatureShiftSeconds(*model_, model_file)) {
  if (activity_ != nullptr && activity_->least_contrast() > 0) options_.recognize.contrast = true;
  recognizer_ = Giving(options_.recognize.nbest);
}

std::unique_ptr<const UtteranceRecognizer> RecognitionSystem::Giving(int nbest) const {
  decode::RecognizeOptions recognize = options_.recognize;
  recognize.nbest = nbest;
  return std::make_unique<const UtteranceRecognizer>(*model_, graph_, recognize, options_.pieces, weights_,
                                                     feature_shift_s_, rescorer_.get(), bias_.get());
}

std::optional<SpeakerAdaptation> RecognitionSystem::Adaptation() const {
  if (model_->adaptive() == nullptr || options_.adaptation.passes == 0) return std::nullopt;
  return std::optional<SpeakerAdaptation>(std::in_place, *model_, graph_, options_.recognize, options_.pieces, weights_,
                                          feature_shift_s_, options_.adaptation);
}

}  // namespace antiphon::pipeline
