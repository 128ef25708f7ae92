// Speech that is still being said: samples in, words out as they become clear. What `antiphon listen` does.
//
//   antiphon::Stream stream = recognizer.NewStream(8000);
//   while (microphone.Read(samples)) {
//     for (const antiphon::StreamEvent& e : stream.Accept(samples)) std::cout << (e.final ? "= " : "… ") << e.text;
//   }
//   for (const antiphon::StreamEvent& e : stream.End()) std::cout << e.text << "\n";
//
// Audio is cut into utterances where somebody pauses. During an utterance there are partial results, words with their
// times so far, at its end a final one, with times, confidences and n-best. All events, words, times and confidences
// are the same, bit for bit, however the samples are cut into pieces. Memory does not grow with the speech. With a
// Recognizer that tells speech from other sound (RecognizerSettings::vad), turns of speech alone become utterances, a
// little later.
//
// Units: samples as floats in −1 … 1, or 16-bit, of one channel; times in seconds from the stream's beginning.
// Ownership: moved, not copied; a stream keeps what it needs of its Recognizer alive.
// Threads: one call at a time on one stream; many streams of one Recognizer may run in different threads.
// Errors: antiphon::Error (antiphon/error.h). Samples that are not finite are refused (kInput) before any is taken, and
// the stream can still be used; any other error of Accept or End ends it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "antiphon/cancel.h"
#include "antiphon/export.h"
#include "antiphon/hotword.h"
#include "antiphon/recognition.h"
#include "antiphon/speaker_memory.h"
#include "antiphon/speaker_profile.h"

namespace antiphon {

struct StreamSettings {
  bool partial = true;              // events for what is understood so far
  int step_frames = 20;             // frames between partial results and looks for an endpoint, 1 … 1000
  double endpoint_silence_s = 0.5;  // silence that ends an utterance where one may end, 0.05 … 60
  double max_utterance_s = 20.0;    // after which an utterance is ended anyway, 0.5 … 3600
  bool learn_speaker = true;        // of models that are trained for speakers' transforms: learn that of who speaks

  // Of models whose features lose the mean of what is around them.
  int cmvn_window = 3000;           // frames whose mean is taken out
  int cmvn_min_window = 100;        // frames to wait for at the start
  bool normalize_variance = false;  // divide by the standard deviation too, as the model was trained

  // Of this stream alone, beside what the Recognizer was made with. Words that the model lacks are told to the log.
  std::vector<Hotword> hotwords = {};
  std::vector<std::string> word_list = {};  // the only words, or phrases of several, that may be recognised, "[unk]":
                                            // others, too, shown as that; empty: the Recognizer's
  int nbest = -1;                           // hypotheses of a final result; −1: as the Recognizer

  SpeakerProfile profile = {};             // of who speaks, from LoadProfile of the Recognizer
  SpeakerMemory memory = SpeakerMemory();  // what was heard of them before; Stream::memory gives what to keep
  CancelToken cancel = {};
};

/// What was understood of one utterance: so far, or in the end. Partial results have text and words with their times so
/// far (a word that is just being said ends at end_s) and, if RecognizerSettings::written asks for it, what
/// is written; no confidences, no n best, no remark. What follows may change all of it.
struct StreamEvent : Recognition {
  bool final = false;
  double start_s = 0.0;  // of the utterance
  double end_s = 0.0;    // so far

  bool operator==(const StreamEvent&) const = default;
};

/// {"final": …, "start": …, "end": …, "text": …, …}, the rest as ToJson of a Recognition gives it.
ANTIPHON_API std::string ToJson(const StreamEvent& event);

class ANTIPHON_API Stream {
 public:
  ~Stream();
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;

  /// More samples, any number; returns what became clear by them. Not after End.
  std::vector<StreamEvent> Accept(std::span<const float> samples);
  std::vector<StreamEvent> Accept(std::span<const int16_t> samples);
  /// No more samples will come; returns what remains. Once.
  std::vector<StreamEvent> End();
  /// Whether it takes no more samples: after End or an error, and when it was moved from.
  bool ended() const;

  /// What is wrong with the sound so far, in sentences: a narrower band than the model's, silence, clipping.
  std::vector<std::string> AudioRemarks() const;
  /// What is known of the speaker: what the settings said, after End with what was heard here.
  const SpeakerMemory& memory() const;

 private:
  friend struct StreamAccess;
  struct Impl;
  explicit Stream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace antiphon
