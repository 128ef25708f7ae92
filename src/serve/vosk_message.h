// What a client of Vosk's protocol says in text: how it wants to be heard, that it is done, that it begins anew.
//
//   {"config": {"sample_rate": 16000, "words": 1, "max_alternatives": 3, "phrase_list": ["yes"], "model": "en"}}
//   {"eof" : 1}
//   {"reset" : 1}
//
// Keys of our own in "config": "profile" (a speaker's, by name), "hotwords" (phrases to prefer, or {"phrase",
// "bonus"}), "format": "listen" (each event as `antiphon listen` prints it, in place of Vosk's replies), "partial" (0:
// none), "partial_words" (1: with times, too, as Vosk's library gives them after SetPartialWords).
//
// Threads: pure functions. Errors: UsageError saying what was expected.
// Source: the protocol that alphacep/vosk-server documents.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "antiphon/recognizer.h"

namespace antiphon::serve {

struct VoskConfig {
  int sample_rate_hz = 8000;
  bool words = true;
  bool partial = true;
  bool partial_words = false;
  bool as_listen = false;
  int max_alternatives = 0;
  std::vector<std::string> phrase_list;  // empty: whatever the model knows
  std::vector<Hotword> hotwords;
  std::string model;    // "": the first
  std::string profile;  // "": none
};

enum class VoskSays { kConfig, kEnd, kReset };

/// Reads one message; what a config names changes in `config`, which an error leaves as it was.
VoskSays ReadVoskMessage(std::string_view text, VoskConfig& config);

}  // namespace antiphon::serve
