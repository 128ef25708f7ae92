// What was recognised of a recording, and the forms in which clients want it.
//
// Units: seconds from the beginning of the recording. Threads: pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "antiphon/stream.h"

namespace antiphon::serve {

struct Transcript {
  std::vector<StreamEvent> utterances;  // final ones that have words
  double duration_s = 0.0;
  std::vector<std::string> audio_remarks = {};  // what is wrong with the sound

  /// All words, with blanks between.
  std::string Text() const;
};

/// Subtitles, an utterance each: SubRip, and WebVTT.
std::string SrtOf(const Transcript& transcript);
std::string VttOf(const Transcript& transcript);

/// What of verbose_json a client wants.
struct VerboseOptions {
  std::string language;
  bool words = false;
  bool segments = true;
};

/// {"task", "language", "duration", "text", "words", "segments", "audio_remarks"}, the last only if there are any; of a
/// segment, what only whisper's networks have is as of a decoding without it.
nlohmann::ordered_json VerboseJsonOf(const Transcript& transcript, const VerboseOptions& options);

}  // namespace antiphon::serve
