// What a public Recognizer shares with its copies and streams, and how the program makes one by options of its own.
//
// Threads: const methods may run together.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "antiphon/recognizer.h"
#include "api/audio_input.h"
#include "api/describe.h"
#include "api/internal.h"
#include "api/recognizer_options.h"
#include "decode/graph/graph.h"
#include "feat/front_end.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/speaker_adaptation.h"
#include "pipeline/utterance_recognizer.h"
#include "pipeline/voice_activity.h"
#include "pipeline/written_words.h"

namespace antiphon {

struct ANTIPHON_INTERNAL Recognizer::Impl {
  Impl(const std::string& model_file, const std::string& graph_folder, const RecognizerOptions& its_options);
  /// `model`: a file, or a bundle (pipeline/bundle.h) that gives what is not named.
  static std::shared_ptr<const Impl> Open(const std::string& model, const std::string& graph,
                                          RecognizerOptions options);

  Recognition Recognize(const AudioInput& input, const RecognizeSettings& settings) const;
  /// `frame_shift_s`: of the search.
  ResultScale scale(double frame_shift_s) const {
    return {graph, weights, frame_shift_s, written.get(), &model->hmm()};
  }
  /// That gives as many hypotheses; negative: as many as the options say.
  const pipeline::UtteranceRecognizer& Giving(int nbest) const;

  RecognizerOptions options;
  std::unique_ptr<AcousticModel> model;
  feat::FrontEnd front_end;
  decode::Graph graph;
  decode::LatticeWeights weights;
  std::unique_ptr<const decode::LmRescorer> rescorer;
  std::unique_ptr<const decode::WordBias> bias;
  std::shared_ptr<const written::WrittenForm> written;  // null: not asked for
  pipeline::UtteranceRecognizer recognizer;
  std::optional<pipeline::SpeakerAdaptation> adaptation;
  std::shared_ptr<const pipeline::VoiceActivity> activity;  // null: everything is recognised
  // For calls that ask for other numbers of hypotheses than the options.
  mutable std::mutex mutex;
  mutable std::map<int, pipeline::UtteranceRecognizer> giving;  // guarded by mutex
};

struct RecognizerAccess {
  using Impl = Recognizer::Impl;

  static Recognizer Make(const std::string& model, const std::string& graph, const RecognizerOptions& options) {
    return Recognizer(Impl::Open(model, graph, options));
  }
};

}  // namespace antiphon
