// A phrase that a search prefers.
#pragma once

#include <string>

namespace antiphon {

/// A word, or several with blanks between, that is preferred.
struct Hotword {
  std::string phrase;
  double bonus = 4.0;  // nats by which each of its words gets cheaper, −100 … 100
};

}  // namespace antiphon
