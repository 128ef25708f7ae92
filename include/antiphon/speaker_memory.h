// What a recogniser remembers of one speaker from utterance to utterance.
//
//   antiphon::Recognizer recognizer("exp/net/model.safetensors", "exp/graph");
//   antiphon::SpeakerMemory anna;                                // nothing yet
//   recognizer.RecognizeFile("first.wav", {.memory = &anna});
//   recognizer.RecognizeFile("second.wav", {.memory = &anna});   // begins with what the first one said
//   recognizer.SaveMemory(anna, "anna.safetensors");             // LoadMemory restores it, bit for bit
//
// Models with an i-vector extractor, or whose features lose the mean of what was heard so far, make use of it; in
// streams those, too, that are trained for speakers' transforms, or on features without their speaker's mean. Others
// leave it empty. It serves the model with which it began; others refuse it.
//
// Ownership: a value; copies are apart, and moving one copies it. Threads: one call at a time may use one.
// Errors: whoever takes one refuses, as kUsage, a memory of another model.
#pragma once

#include <memory>
#include <string>

#include "antiphon/export.h"

namespace antiphon {

class ANTIPHON_API SpeakerMemory {
 public:
  /// Nothing is known; `speaker` is kept in files.
  explicit SpeakerMemory(const std::string& speaker = "");
  ~SpeakerMemory();
  SpeakerMemory(const SpeakerMemory& other);
  SpeakerMemory& operator=(const SpeakerMemory& other);

  std::string speaker() const;

 private:
  friend struct SpeakerMemoryAccess;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace antiphon
