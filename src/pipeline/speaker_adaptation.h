// Speakers' transforms (fMLLR) of speech whose words are not known: each pass recognises with the Gaussians of a
// speaker-adaptive model under the transforms so far, and estimates them anew from what it found.
//
// Threads: const methods may run together. Errors: those of features and search.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/team.h"
#include "decode/graph/graph.h"
#include "decode/search/recognize_in_pieces.h"
#include "decode/search/recognizer_pool.h"
#include "hmm/gmm_model.h"
#include "pipeline/acoustic_model.h"
#include "pipeline/speaker_transforms.h"
#include "pipeline/utterance_features.h"

namespace antiphon::pipeline {

struct SpeakerAdaptationOptions {
  int passes = 2;
  double beam = 11.0;
  double min_frames = 300;
  double prior_frames = kSpeakerPriorFrames;
  std::string graph;
  template <class V>
  void Visit(V& v) {
    v("adapt-passes", passes, Range{0, 10},
      "passes by Gaussians that give and improve speakers' transforms (fMLLR), if the model is trained for them");
    v("adapt-beam", beam, Range{1.0, 1000.0}, "beam of these passes");
    v("min-fmllr-frames", min_frames, Range{1, 1e9}, "frames of speech that a speaker's transform needs");
    v("fmllr-prior-frames", prior_frames, Range{0, 1e9},
      "so many frames of speech that needs no transform are counted in, so that little speech changes little");
    v("adapt-graph", graph,
      "folder that antiphon graph made for these Gaussians, where the network has other states (chain models)");
  }
};

/// Utterances 0 … sizes.size() − 1.
struct SpokenFeatures {
  std::vector<int64_t> sizes;  // in proportion to the work
  std::function<std::string(size_t)> speaker;
  std::function<std::shared_ptr<UtteranceFeatures>(size_t)> features;
  bool is_told = false;  // progress, and passes in the log
  /// Told which share of all passes is done, up to 1; by one thread at a time.
  std::function<void(double share)> progress = {};
};

class PassProgress;

class SpeakerAdaptation {
 public:
  /// Only if model.adaptive(). `graph`, `recognize`, `pieces` and `weights`: as the speech will be recognised then;
  /// with options.graph that graph takes their place, and the weights that suit Gaussians. Model and graph must outlive
  /// this. UsageError if the Gaussians' states are not the network's and no graph for them is named.
  SpeakerAdaptation(const AcousticModel& model, const decode::Graph& graph, const decode::RecognizeOptions& recognize,
                    const decode::PieceOptions& pieces, const decode::LatticeWeights& weights, double frame_shift_s,
                    const SpeakerAdaptationOptions& options);

  struct Result {
    SpeakerTransforms transforms;  // empty without a pass
    double cpu_seconds = 0.0;      // of the searches
  };
  int passes() const { return options_.passes; }
  /// The same on all members of the team.
  Result Adapt(const SpokenFeatures& speech, int num_threads, Team& team) const;

 private:
  // Transition-ids of the best path, 0 in pieces in which the search lost it; empty if it lost it in the whole, and
  // where there is nothing but zeros. Null: the speaker has no transform yet.
  std::vector<int32_t> Align(UtteranceFeatures& features, const Matrix* transform,
                             const std::function<void(int64_t frames)>& searched) const;
  std::vector<std::vector<int32_t>> AlignAll(const SpokenFeatures& speech, int num_threads, Team& team,
                                             PassProgress& progress, Result& so_far) const;

  const hmm::GmmModel& model_;
  hmm::FmllrPrior prior_;
  std::optional<decode::Graph> own_graph_;
  decode::PieceOptions pieces_;
  decode::LatticeWeights weights_;
  double frame_shift_s_;
  SpeakerAdaptationOptions options_;
  mutable decode::RecognizerPool recognizers_;
};

}  // namespace antiphon::pipeline
