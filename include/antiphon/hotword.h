// A phrase that a search prefers: of RecognizerSettings, StreamSettings.
//
// Units: nats. Text is UTF-8, words as the graph has them. Threads: values. Errors: whoever takes them refuses, as
// kUsage, phrases without a word and bonuses beyond the range; a phrase with words that the graph lacks is told to the
// log (antiphon/log.h) and left out.
#pragma once

#include <string>

namespace antiphon {

/// A word, or several with blanks between, that is preferred.
struct Hotword {
  std::string phrase;
  double bonus = 4.0;  // nats by which each of its words gets cheaper, −100 … 100
};

}  // namespace antiphon
