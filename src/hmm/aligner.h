// Forced alignment: the best path of an utterance through all ways to say its transcript.
//
// Shapes: an alignment has one transition-id per frame, in the order that hmm/transition_model.h describes.
// Search: Viterbi with a beam; if no path reaches the end, once more with the retry beam; then the utterance fails.
// Deterministic: ties go to the path found first. Threads: functions may run together, each with its own ScoreSource.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/random.h"
#include "base/score_source.h"
#include "hmm/align_graph.h"

namespace antiphon::hmm {

struct AlignOptions {
  double beam = 10;
  double retry_beam = 40;
  double acoustic_scale = 0.1;
  double transition_scale = 1.0;
  double self_loop_scale = 0.1;
  double silence_boost = 1.0;
  template <class V>
  void Visit(V& v) {
    v("beam", beam, Range{0.01, 1e9}, "paths worse than the best by more (in scaled nats) are dropped");
    v("retry-beam", retry_beam, Range{0, 1e9}, "beam of the second attempt; 0: none");
    v("acoustic-scale", acoustic_scale, Range{1e-3, 1e3}, "factor on acoustic log-likelihoods");
    v("transition-scale", transition_scale, Range{0, 1e3}, "factor on log-probabilities of transitions between states");
    v("self-loop-scale", self_loop_scale, Range{0, 1e3},
      "factor on log-probabilities of staying in or leaving a state");
    v("silence-boost", silence_boost, Range{0.01, 100}, "factor on the likelihoods of silence phones");
  }
};

/// A phone as it was found.
struct AlignedPhone {
  int32_t phone = 0;
  int begin_frame = 0;
  int num_frames = 0;
  int32_t word_position = -1;  // index into the transcript, −1 for a pause, kForeignSpeech
  bool operator==(const AlignedPhone&) const = default;
};

enum class AlignStatus { kOk, kRetried, kTooShort, kNoPath };

struct Alignment {
  AlignStatus status = AlignStatus::kNoPath;
  std::vector<int32_t> transition_ids;  // empty unless kOk or kRetried
  std::vector<AlignedPhone> phones;
  double log_likelihood = 0;  // acoustic, unscaled, of the path
  double score = 0;           // scaled, with graph and transitions: what the search maximised

  bool ok() const { return status == AlignStatus::kOk || status == AlignStatus::kRetried; }
  template <class V>
  void VisitFields(V& v) {
    v(status);
    v(transition_ids);
    v(phones);
    v(log_likelihood);
    v(score);
  }
};

/// "aligned", "aligned with the retry beam", "too short for its transcript", "no path within the beam".
std::string AlignStatusName(AlignStatus status);

/// Factor on the costs of pauses and pronunciations. A chain model's log-likelihoods are trained to weigh as much as
/// these (decode::AcousticScale), so that both are scaled alike; those of other models are scaled alone.
double LexiconScale(const HmmModel& model, const AlignOptions& options);

/// All frames that `scores` has ready.
Alignment Align(const HmmModel& model, const AlignGraph& graph, ScoreSource& scores, const AlignOptions& options);
/// With the graph built on the way.
Alignment Align(const HmmModel& model, const Lexicon& lexicon, std::span<const int32_t> words, ScoreSource& scores,
                const AlignOptions& options);

/// The start of a flat start: pauses at both ends, a pronunciation at random, all states equally long. kTooShort if
/// there are fewer frames than states.
Alignment AlignEqually(const HmmModel& model, const Lexicon& lexicon, std::span<const int32_t> words, int num_frames,
                       Rng& rng);

}  // namespace antiphon::hmm
