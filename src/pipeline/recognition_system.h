// What `antiphon decode` and antiphon::Recognizer recognise with: model and graph, and what rests on them, as
// RecognitionOptions name it.
//
// Threads: const methods may run together. Errors: InputError naming the file; UsageError for options that exclude each
// other.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "decode/graph/graph.h"
#include "decode/lattice/lm_rescore.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/recognition_options.h"
#include "pipeline/utterance_recognizer.h"
#include "pipeline/voice_activity.h"
#include "written/written_form.h"

namespace antiphon::pipeline {

class RecognitionSystem {
 public:
  RecognitionSystem(const std::string& model_file, const std::string& graph_folder, const RecognitionOptions& options);
  // Its parts refer to each other.
  RecognitionSystem(const RecognitionSystem&) = delete;
  RecognitionSystem& operator=(const RecognitionSystem&) = delete;

  const RecognitionOptions& options() const { return options_; }
  const AcousticModel& model() const { return *model_; }
  const std::shared_ptr<const AcousticModel>& shared_model() const { return model_; }
  const decode::Graph& graph() const { return graph_; }
  /// With which results are chosen.
  const decode::LatticeWeights& weights() const { return weights_; }
  /// What exchanges the language model in lattices; null: nothing.
  const decode::LmRescorer* rescorer() const { return rescorer_.get(); }
  /// Null: no word is preferred or refused.
  const decode::WordBias* bias() const { return bias_.get(); }
  /// Null: not asked for.
  const std::shared_ptr<const written::WrittenForm>& written() const { return written_; }
  /// What tells turns of speech; null: everything is recognised.
  const std::shared_ptr<const VoiceActivity>& activity() const { return activity_; }

  const UtteranceRecognizer& recognizer() const { return *recognizer_; }
  /// One more recogniser, for results with so many hypotheses. This must outlive it.
  std::unique_ptr<const UtteranceRecognizer> Giving(int nbest) const;
  /// What estimates transforms of speakers; none for a model that takes none, or without passes. This must outlive it.
  std::optional<SpeakerAdaptation> Adaptation() const;

 private:
  RecognitionOptions options_;
  std::shared_ptr<const AcousticModel> model_;
  decode::Graph graph_;
  decode::LatticeWeights weights_;
  std::unique_ptr<const decode::LmRescorer> rescorer_;
  std::unique_ptr<const decode::WordBias> bias_;
  std::shared_ptr<const written::WrittenForm> written_;
  std::shared_ptr<const VoiceActivity> activity_;
  double feature_shift_s_;
  std::unique_ptr<const UtteranceRecognizer> recognizer_;
};

}  // namespace antiphon::pipeline
