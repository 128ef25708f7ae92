// Utterances of which chunks cannot be learned from, told once however many losses and passes meet them.
//
// Threads: all methods may run together.
#pragma once

#include <mutex>
#include <set>
#include <string>

namespace antiphon::chain {

class LeftOut {
 public:
  /// The first, the second, the fourth, the eighth … utterance is told, with what is wrong.
  void Note(const std::string& utt_id, const std::string& problem);
  size_t num_utterances() const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> utterances_;
};

}  // namespace antiphon::chain
