#include "chain/reference.h"

#include <algorithm>

#include "base/check.h"
#include "base/error.h"

namespace antiphon::chain {

Reference ReferenceOf(const hmm::HmmModel& model, std::span<const int32_t> alignment) {
  Reference reference;
  for (const hmm::PhoneSegment& segment : model.SplitToPhones(alignment)) {
    reference.phones.push_back(segment.phone);
    reference.ends.push_back(segment.begin_frame + segment.num_frames);
  }
  return reference;
}

Reference InInputFrames(Reference reference, int step, int num_frames) {
  for (int32_t& end : reference.ends) end = std::min(end * step, num_frames);
  if (!reference.ends.empty()) reference.ends.back() = num_frames;
  return reference;
}

std::vector<int32_t> ToPairs(const Reference& reference) {
  std::vector<int32_t> pairs;
  int32_t begin = 0;
  for (size_t i = 0; i < reference.phones.size(); ++i) {
    pairs.push_back(reference.phones[i]);
    pairs.push_back(reference.ends[i] - begin);
    begin = reference.ends[i];
  }
  return pairs;
}

Reference FromPairs(std::span<const int32_t> pairs, int num_phones) {
  if (pairs.size() % 2 != 0) throw InputError("phones and numbers of frames must stand in turn");
  Reference reference;
  int64_t end = 0;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    end += pairs[i + 1];
    if (pairs[i] < 1 || pairs[i] > num_phones || pairs[i + 1] < 1 || end > INT32_MAX)
      Throw<InputError>("phone {} for {} frames, where the model has phones 1 … {}", pairs[i], pairs[i + 1],
                        num_phones);
    reference.phones.push_back(pairs[i]);
    reference.ends.push_back(static_cast<int32_t>(end));
  }
  return reference;
}

std::optional<std::vector<int32_t>> OutputEnds(const Reference& reference, int shift, int step) {
  const int outputs = NumOutputs(reference.num_frames(), shift, step);
  const size_t n = reference.phones.size();
  if (static_cast<size_t>(outputs) < n) return std::nullopt;
  std::vector<int32_t> ends(n);
  int32_t least = 1;
  for (size_t i = 0; i < n; ++i) {
    ends[i] = std::max(OutputBehind(reference.ends[i], shift, step), least);
    least = ends[i] + 1;
  }
  int32_t most = outputs;
  for (size_t i = n; i-- > 0;) {
    ends[i] = std::min(ends[i], most);
    most = ends[i] - 1;
  }
  return ends;
}

std::vector<int32_t> AlignmentOf(const hmm::HmmModel& chain_model, std::span<const int32_t> phones,
                                 std::span<const int32_t> ends) {
  CHECK_EQ(phones.size(), ends.size());
  const hmm::TransitionModel& transitions = chain_model.transitions();
  std::vector<int32_t> alignment;
  for (size_t i = 0; i < phones.size(); ++i) {
    const int32_t context[3] = {i > 0 ? phones[i - 1] : 0, phones[i], i + 1 < phones.size() ? phones[i + 1] : 0};
    const int32_t state = chain_model.TransitionState(chain_model.Window(context), 0);
    const int32_t loop = transitions.SelfLoopOf(state);
    const int32_t first = transitions.TransitionId(state, 0);
    alignment.push_back(first == loop ? first + 1 : first);
    alignment.resize(static_cast<size_t>(ends[i]), loop);
  }
  return alignment;
}

}  // namespace antiphon::chain
