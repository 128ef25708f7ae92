// A speaker's profile: what one speaker needs of a model that all share, a few kilobytes that `antiphon adapt` writes.
//
//   antiphon::Recognizer recognizer("exp/net/model.safetensors", "exp/graph");
//   const antiphon::SpeakerProfile anna = recognizer.LoadProfile("anna.safetensors");
//   recognizer.RecognizeFile("call.wav", {.profile = anna});
//
// A profile names the model that it is for, by its values; LoadProfile refuses any other, naming the file and both
// models. It serves the Model or Recognizer that loaded it, and what is made of that Model; others refuse it: load the
// file once with each.
//
// Ownership: a copy shares what it is a copy of, and keeps what it needs alive, the model too; one that was moved from
// is none. Threads: never changes; any number of threads, streams and calls may use one at the same time.
// Errors: whoever takes one refuses, as kUsage, a profile that another loaded.
#pragma once

#include <memory>
#include <string>

#include "antiphon/export.h"

namespace antiphon {

class ANTIPHON_API SpeakerProfile {
 public:
  /// None: the model as it is.
  SpeakerProfile() = default;

  /// What `antiphon adapt --speaker` was given; "" for none.
  std::string speaker() const;

 private:
  friend struct SpeakerProfileAccess;
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace antiphon
