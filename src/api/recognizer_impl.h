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
#include "feat/front_end.h"
#include "pipeline/recognition_system.h"

namespace antiphon {

struct ANTIPHON_INTERNAL Recognizer::Impl {
  Impl(const std::string& model_file, const std::string& graph_folder, const RecognizerOptions& options);
  /// `model`: a file, or a bundle (pipeline/bundle.h) that gives what is not named.
  static std::shared_ptr<const Impl> Open(const std::string& model, const std::string& graph,
                                          RecognizerOptions options);

  Recognition Recognize(const AudioInput& input, const RecognizeSettings& settings) const;
  /// `frame_shift_s`: of the search. `its_bias`: of a stream; null: the recogniser's.
  ResultScale scale(double frame_shift_s, const decode::WordBias* its_bias = nullptr) const {
    const decode::WordBias* const bias = its_bias != nullptr ? its_bias : system.bias();
    return {system.graph(), system.model().hmm(),   system.weights(),
            frame_shift_s,  system.written().get(), bias != nullptr ? bias->phrases() : nullptr};
  }
  /// Of the recording's speaker; empty for a model that takes none. `turns`: null: all is speech. `progress`: told the
  /// share that is done.
  pipeline::SpeakerTransforms Transforms(const std::shared_ptr<pipeline::RecordingFeatures>& features,
                                         const std::vector<pipeline::SpeechTurn>* turns,
                                         const std::function<void(double share)>& progress) const;
  /// That gives as many hypotheses; negative: as many as the options say.
  const pipeline::UtteranceRecognizer& Giving(int nbest) const;
  /// Tells, once, who hears live by a model that needs to know the speaker, and is not to learn of them.
  void WarnOfLiveSpeech() const;

  bool normalize_variance;
  int threads;
  pipeline::RecognitionSystem system;
  feat::FrontEnd front_end;
  std::optional<pipeline::SpeakerAdaptation> adaptation;
  // For calls that ask for other numbers of hypotheses than the options.
  mutable std::mutex mutex;
  mutable std::map<int, std::unique_ptr<const pipeline::UtteranceRecognizer>> giving;  // guarded by mutex
  mutable std::once_flag warned_of_live_speech;
};

struct RecognizerAccess {
  using Impl = Recognizer::Impl;

  static Recognizer Make(const std::string& model, const std::string& graph, const RecognizerOptions& options) {
    return Recognizer(Impl::Open(model, graph, options));
  }
};

}  // namespace antiphon
