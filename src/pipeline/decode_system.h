// What a decoding recognises with: model, graph, profiles and weights, as a request names them.
//
// Threads: const methods may run together. Errors: InputError naming the file; UsageError for options that exclude each
// other.
#pragma once

#include <memory>
#include <optional>

#include "decode/graph/graph.h"
#include "decode/lattice/lm_rescore.h"
#include "pipeline/decode_request.h"
#include "pipeline/speaker_profiles.h"
#include "pipeline/utterance_recognizer.h"

namespace antiphon::pipeline {

class DecodeSystem {
 public:
  explicit DecodeSystem(const DecodeRequest& request);

  const AcousticModel& model() const { return *model_; }
  const decode::Graph& graph() const { return graph_; }
  const SpeakerProfiles& profiles() const { return profiles_; }
  /// With which results are chosen.
  const decode::LatticeWeights& weights() const { return weights_; }
  const UtteranceRecognizer& recognizer() const { return *recognizer_; }

 private:
  std::unique_ptr<AcousticModel> model_;
  SpeakerProfiles profiles_;
  decode::Graph graph_;
  decode::LatticeWeights weights_;
  std::unique_ptr<const decode::LmRescorer> rescorer_;
  std::unique_ptr<const decode::WordBias> bias_;
  std::optional<UtteranceRecognizer> recognizer_;
};

}  // namespace antiphon::pipeline
