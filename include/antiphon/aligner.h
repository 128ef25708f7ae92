// Where each word and phone of known text was said.
//
//   const antiphon::Aligner aligner("exp/net/model.safetensors", "lang/lexicon.txt");
//   const antiphon::AlignedSpeech speech = aligner.AlignFile("x.wav", "the cat sat");
//   for (const antiphon::AlignedWord& w : speech.words) std::cout << w.start_s << " " << w.word << "\n";
//   std::ofstream("x.TextGrid") << antiphon::ToTextGrid(speech);
//
// By the stage of `antiphon align --model`: words and times are the same, to the frame, for a data directory in which
// the audio is all that its speaker says.
//
// Units: samples as floats in −1 … 1; times in seconds from the beginning of the audio; beams in nats. Words, phones
// and channels count from 0. Text is UTF-8, words between blanks, as the lexicon writes them.
// Ownership: copies of an Aligner share all, and moving one copies it.
// Threads: an Aligner may be used by many threads at once; each keeps its own memory.
// Errors: antiphon::Error (antiphon/error.h): kInput where words and audio do not fit together, and for files that are
// damaged; kUsage for settings that cannot be; kIo, kCancelled, kMemory.
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "antiphon/cancel.h"
#include "antiphon/export.h"

namespace antiphon {

struct AlignerSettings {
  double beam = 10.0;              // nats, scaled, that a path may be worse than the best
  double retry_beam = 40.0;        // of the second attempt, where the first finds no path; 0: none
  bool map_unknown_words = true;   // words that the lexicon lacks are aligned as <UNK>, if it has that
  bool adapt = true;               // to the speaker, if the model is trained for it
  std::string precision = "fp32";  // of a network's products: "fp32", "bf16", "int8", "auto"
  int threads = 0;                 // that a call computes with; 0: all cores

  /// Further options of `antiphon align`, as TOML: "lexicon-options.silence-phones = ['SIL', 'NSN']"; they hold against
  /// the above.
  std::string options = {};
};

/// What one call is about.
struct AlignSettings {
  int channel = -1;  // of a file, from 0; −1: the only one, or the mean of all
  CancelToken cancel = {};
};

struct AlignedPhone {
  std::string phone;  // as the model names it: with its position in the word, where the model tells positions apart
  double start_s = 0.0;
  double end_s = 0.0;

  bool operator==(const AlignedPhone&) const = default;
};

struct AlignedWord {
  std::string word;
  double start_s = 0.0;
  double end_s = 0.0;
  int first_phone = 0;  // in AlignedSpeech::phones
  int num_phones = 0;

  bool operator==(const AlignedWord&) const = default;
};

/// Where text and audio do not agree: looked for in audio of more than a minute, or as `gaps` among the options says.
struct UnalignedPart {
  double start_s = 0.0;
  double end_s = 0.0;                   // the start, if it is text that nobody says
  std::vector<std::string> words = {};  // of the text; empty: speech that the text lacks

  bool operator==(const UnalignedPart&) const = default;
};

struct AlignedSpeech {
  std::vector<AlignedWord> words;    // in order; pauses lie between them
  std::vector<AlignedPhone> phones;  // without gaps; pauses are phones, too
  double duration_s = 0.0;           // of the audio
  double log_likelihood = 0.0;  // of the path, per frame, in nats: much lower than usual where text and audio differ
  bool retried = false;         // no path was found with the first beam
  std::vector<UnalignedPart> unaligned;    // in the order of time; their words are not among `words`
  std::vector<std::string> unknown_words;  // of the text: not in the lexicon, and the bundle cannot pronounce them
};

class ANTIPHON_API Aligner {
 public:
  /// `model`: what `antiphon bundle` made, the folder that a recipe made, or a Gaussian model or network
  /// (.safetensors). `lexicon`: WORD PHONE … per line, with the model's phones; "": the bundle's or the folder's.
  Aligner(const std::string& model, const std::string& lexicon, const AlignerSettings& settings);
  // A template, so that a braced list is never taken for a text.
  template <std::convertible_to<std::string> Lexicon>
  Aligner(const std::string& model, const Lexicon& lexicon) : Aligner(model, lexicon, AlignerSettings()) {}
  /// With the bundle's or the folder's lexicon: Aligner aligner("mine.antiphon", {.beam = 20}).
  Aligner(const std::string& bundle, const AlignerSettings& settings) : Aligner(bundle, "", settings) {}
  explicit Aligner(const std::string& bundle) : Aligner(bundle, AlignerSettings()) {}
  Aligner(const Aligner&) = default;
  Aligner& operator=(const Aligner&) = default;
  ~Aligner() = default;

  /// One channel at any rate from 1000 to 384000 Hz. An Error of the kind kInput if the audio is too short for the
  /// text, if no path lies within the beams, or for words without pronunciation that are not mapped.
  AlignedSpeech Align(std::span<const float> samples, int sample_rate_hz, std::string_view text,
                      const AlignSettings& settings = {}) const;
  /// WAV, FLAC, Ogg …
  AlignedSpeech AlignFile(const std::string& path, std::string_view text, const AlignSettings& settings = {}) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// For Praat, ELAN and others: tiers "words" and "phones", in UTF-8.
ANTIPHON_API std::string ToTextGrid(const AlignedSpeech& speech);

enum class CtmLabels { kWords, kPhones };
/// Lines of UTTERANCE CHANNEL START DURATION LABEL, seconds with three decimals, as `antiphon align` writes them.
ANTIPHON_API std::string ToCtm(const AlignedSpeech& speech, const std::string& utterance,
                               CtmLabels labels = CtmLabels::kWords, const std::string& channel = "1");

/// {"words": [{"word", "start", "end", "phones": [{"phone", "start", "end"}, …]}, …], "duration", "log_likelihood",
/// "retried", "unknown_words", "unaligned": [{"start", "end", "text"}, …]}; times in seconds, rounded to milliseconds.
ANTIPHON_API std::string ToJson(const AlignedSpeech& speech);

}  // namespace antiphon
