// When a speaker has finished: rules over what the search says so far.
//
// An utterance ends when any rule holds: enough silence at the end of the best path, perhaps only after speech, perhaps
// only if a sentence may end there, or simply after a long time. Defaults are Kaldi's for online decoding.
//
// Threads: pure function.
#pragma once

#include <limits>
#include <vector>

#include "decode/search/decoder.h"
#include "hmm/hmm_model.h"

namespace antiphon::decode {

struct EndpointRule {
  bool needs_speech = true;
  double min_trailing_silence_s = 0.5;
  double max_relative_cost = std::numeric_limits<double>::infinity();  // Decoder::FinalRelativeCost must not exceed it
  double min_length_s = 0.0;
};

inline std::vector<EndpointRule> DefaultEndpointRules() {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  return {{false, 5.0, kAny, 0.0},
          {true, 0.5, 2.0, 0.0},
          {true, 1.0, 8.0, 0.0},
          {true, 2.0, kAny, 0.0},
          {false, 0.0, kAny, 20.0}};
}

/// The default rules, but that the sentence is over after `silence_s` seconds where one may end. The rules that wait
/// longer go on doing so: in their default proportion to it, though no shorter than by default.
std::vector<EndpointRule> EndpointRulesFor(double silence_s);

/// What the rules look at.
struct EndpointState {
  int num_frames = 0;
  int trailing_silence_frames = 0;
  double final_relative_cost = 0.0;
};

/// The state of a decoder now. `head_start`: nats that hypotheses have which have just begun a word (a hotword's
/// bonus). In silence the best is always one of these, so that with a head start the best that ends here is looked at.
EndpointState ObserveEndpoint(const Decoder& decoder, const hmm::HmmModel& model, double head_start = 0.0);

/// Whether some rule holds.
bool IsEndpoint(const EndpointState& state, const std::vector<EndpointRule>& rules, double frame_shift_s);

}  // namespace antiphon::decode
