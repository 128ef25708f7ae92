// What GMM training knows of its data: utterances with speaker, words and base features. Programs put tables behind it.
//
// Threads: const methods may run together. Errors: whatever the files behind it throw.
#pragma once

#include <string>
#include <vector>

#include "math/matrix.h"

namespace antiphon::hmm {

class UtteranceSource {
 public:
  virtual ~UtteranceSource() = default;

  virtual size_t size() const = 0;
  virtual const std::string& Id(size_t i) const = 0;
  virtual const std::string& Speaker(size_t i) const = 0;
  virtual const std::vector<std::string>& Words(size_t i) const = 0;
  /// Normalised base features (without context, deltas or transform), one frame per row.
  virtual Matrix Features(size_t i) const = 0;
};

}  // namespace antiphon::hmm
