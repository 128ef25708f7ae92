// What clients get to see of what was recognised.
#pragma once

#include "antiphon/stream.h"

namespace antiphon::serve {

/// With what people would write in place of the words, if the server was asked for that (--written); hypotheses keep
/// theirs.
inline StreamEvent ShownEvent(StreamEvent event) {
  if (event.written.empty()) return event;
  event.text = event.written;
  event.words = event.written_words;
  return event;
}

}  // namespace antiphon::serve
