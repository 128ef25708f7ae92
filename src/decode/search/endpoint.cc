#include "decode/search/endpoint.h"

#include <algorithm>

namespace antiphon::decode {

std::vector<EndpointRule> EndpointRulesFor(double silence_s) {
  auto rules = DefaultEndpointRules();
  const double factor = std::max(1.0, silence_s / rules[1].min_trailing_silence_s);
  rules[1].min_trailing_silence_s = silence_s;
  rules[2].min_trailing_silence_s *= factor;
  rules[3].min_trailing_silence_s *= factor;
  // Silence without speech ends one with speech before it, too.
  rules[0].min_trailing_silence_s = std::max(rules[0].min_trailing_silence_s, rules[3].min_trailing_silence_s);
  return rules;
}

EndpointState ObserveEndpoint(const Decoder& decoder, const hmm::HmmModel& model, double head_start) {
  EndpointState state;
  state.num_frames = decoder.num_frames();
  state.final_relative_cost = std::max(0.0, decoder.FinalRelativeCost() - head_start);
  state.trailing_silence_frames = decoder.CountFromEnd(
      head_start > 0, [&](int32_t id) { return model.phones().IsSilence(model.transitions().Phone(id)); });
  return state;
}

bool IsEndpoint(const EndpointState& state, const std::vector<EndpointRule>& rules, double frame_shift_s) {
  const bool has_speech = state.num_frames > state.trailing_silence_frames;
  return std::any_of(rules.begin(), rules.end(), [&](const EndpointRule& rule) {
    return (has_speech || !rule.needs_speech) &&
           state.trailing_silence_frames * frame_shift_s >= rule.min_trailing_silence_s &&
           state.final_relative_cost <= rule.max_relative_cost && state.num_frames * frame_shift_s >= rule.min_length_s;
  });
}

}  // namespace antiphon::decode
