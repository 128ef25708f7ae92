#include "chain/left_out.h"

#include <bit>

#include "base/log.h"

namespace antiphon::chain {

void LeftOut::Note(const std::string& utt_id, const std::string& problem) {
  const std::lock_guard lock(mutex_);
  if (!utterances_.insert(utt_id).second || !std::has_single_bit(utterances_.size())) return;
  log::Warn("a chunk of utterance '{}' is left out of chain training: {} ({} utterance(s) so far)", utt_id, problem,
            utterances_.size());
}

size_t LeftOut::num_utterances() const {
  const std::lock_guard lock(mutex_);
  return utterances_.size();
}

}  // namespace antiphon::chain
