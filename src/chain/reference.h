// What was said, as phones with times: the transcript of chain training.
//
// Times are in frames of the features ("input frames"); the network gives an output at every `step`-th of them. Output
// u at shift s belongs to input frame u·step + s, so that 0 ≤ s < step gives as many ways to lay the outputs' grid. A
// boundary at input frame b lies in front of the first output whose frame is not before b. Threads: const data, pure
// functions. Errors: InputError naming what does not fit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hmm/hmm_model.h"

namespace antiphon::chain {

struct Reference {
  std::vector<int32_t> phones;
  std::vector<int32_t> ends;  // input frame behind each phone; ascending

  int num_frames() const { return ends.empty() ? 0 : ends.back(); }
  bool operator==(const Reference&) const = default;
};

/// Of an alignment in transition-ids of `model`, of whatever topology.
Reference ReferenceOf(const hmm::HmmModel& model, std::span<const int32_t> alignment);
/// The same where a frame of the alignment stands for `step` input frames, of which the utterance has `num_frames`.
Reference InInputFrames(Reference reference, int step, int num_frames);
/// Phone and number of frames in turn, as files hold it.
std::vector<int32_t> ToPairs(const Reference& reference);
Reference FromPairs(std::span<const int32_t> pairs, int num_phones);

/// Outputs of an utterance of so many input frames.
inline int NumOutputs(int num_frames, int shift, int step) {
  return num_frames > shift ? (num_frames - shift + step - 1) / step : 0;
}
/// The output in front of which a boundary lies; the boundary may be negative.
inline int OutputBehind(int boundary, int shift, int step) {
  return boundary > shift ? (boundary - shift + step - 1) / step : 0;
}

/// The output behind each phone, where each phone has one output at least: boundaries make way for phones that would
/// have none. Nothing if there are fewer outputs than phones.
std::optional<std::vector<int32_t>> OutputEnds(const Reference& reference, int shift, int step);

/// The reference as a walk through a chain model, one transition-id per output. `ends` as from OutputEnds.
std::vector<int32_t> AlignmentOf(const hmm::HmmModel& chain_model, std::span<const int32_t> phones,
                                 std::span<const int32_t> ends);

}  // namespace antiphon::chain
