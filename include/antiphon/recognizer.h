// Speech in, words out.
//
//   antiphon::Recognizer recognizer("mine.antiphon", {.nbest = 3, .precision = "int8"});
//   std::cout << recognizer.RecognizeFile("call.wav").text << "\n";
//
// Speech that is still being said: antiphon/stream.h.
//
// Units: samples as floats in −1 … 1; times in seconds; beams and costs in nats; confidences in 0 … 1. Channels count
// from 0.
// Ownership: copies of a Recognizer share all, and moving one copies it; streams, profiles and memories keep alive what
// they need of it.
// Threads: a Recognizer may be used by many threads at once; each keeps its own memory.
// Errors: antiphon::Error, whose what() reads from what was asked for down to the cause (antiphon/error.h): kUsage for
// a call or settings that cannot be, kInput for files that are damaged or do not fit together and for samples that are
// no numbers, kIo, kCancelled, kMemory.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
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
#include "antiphon/stream.h"

namespace antiphon {

/// A word that the graph lacks, for a graph that `antiphon graph --on-the-fly` made.
struct AddedWord {
  std::string word;
  std::string phones = {};  // blanks between them; "": those of the lexicon, or what the settings' g2p says
  double weight = 1.0;      // how many times as probable as added words are by default, above 0
};

/// Settings that differ from the defaults are those of `antiphon decode` with the option of the same name.
struct RecognizerSettings {
  // The search. Larger: slower, fewer search errors.
  double beam = 13.0;         // nats that a hypothesis may be worse than the best
  double lattice_beam = 8.0;  // nats, of what confidences and the n best come from
  int max_active = 7000;      // hypotheses that are followed in a frame
  double acoustic_scale = 0;  // weight of the acoustic model in the search; 0: what the model was trained for

  // Choosing the result.
  std::string weights = {};       // weights.toml of `antiphon decode --tune`, in place of the next two
  double lm_weight = 0.0;         // weight of the language model; 0: 1 / acoustic scale
  double word_penalty = 0.0;      // cost per word
  int nbest = 0;                  // hypotheses to give; 0: the best alone
  bool confidences = true;        // of the words
  std::string rescore_arpa = {};  // larger n-gram model that replaces the graph's in each lattice
  std::string graph_arpa = {};    // the one that the graph was built with, for rescore_arpa

  // Words, in UTF-8. What cannot be done as asked for is told to the log (antiphon/log.h).
  std::vector<Hotword> hotwords = {};
  std::vector<std::string> word_list = {};  // the only words, or phrases of several, that may be recognised, "[unk]":
                                            // others, too, shown as that; empty: all of the graph

  std::vector<AddedWord> add_words = {};  // what else may be recognised; several of one word: several pronunciations
  std::string g2p = {};                   // model of `antiphon g2p train` for added words and hotwords; "": the
                                          // bundle's
  std::string lm = {};                    // n-gram model (ARPA) in place of that of a graph made with --on-the-fly

  // What is recognised: everything, or speech alone.
  std::string vad = {};  // network of recipes/vad.toml, or a bundle with one; "": the bundle's; "none": everything

  // The result as people write it, beside the words: "english" (numbers, times, money; full stops from pauses), a
  // folder or file of `antiphon written`, or "bundle", the bundle's own; "": no.
  std::string written = {};

  // The network.
  std::string precision = "fp32";  // of products: "fp32", "bf16", "int8", "auto"
  bool profiles = false;           // speakers' profiles can be loaded; in fp32 they always can. In int8 and bf16 scores
                                   // then differ a little, also without a profile
  int threads = 0;                 // that a call computes with; 0: all cores for Recognize, one for a stream

  // Features and speakers.
  bool normalize_variance = false;  // as the model's features were made (`norm-vars`), where the model does not say so
  std::string adapt_graph = {};     // the Gaussians' own graph, where a chain model's features are adapted by them
  int adapt_passes = 2;             // that give a recording's speaker a transform, if the model is trained for them

  /// Further options of `antiphon decode`, as TOML: "max-piece = 20\nnnet.lazy = true"; they hold against the above.
  std::string options = {};
};

/// What one call is about.
struct RecognizeSettings {
  int channel = -1;                 // of a file, from 0; −1: the only one, or the mean of all
  int nbest = -1;                   // hypotheses of this call, up to 1000; −1: RecognizerSettings::nbest
  SpeakerProfile profile = {};      // of who speaks, from LoadProfile of this Recognizer
  SpeakerMemory* memory = nullptr;  // what the speaker said before, to which this is added; null: nothing known or kept
  CancelToken cancel = {};
  std::function<void(double done_s)> progress = {};  // called now and then with the seconds that are done
};

class ANTIPHON_API Recognizer {
 public:
  /// `model`: what `antiphon bundle` made, which brings graph, weights and language models that are not named; or the
  /// folder that a recipe made, of which it takes what `antiphon bundle --experiment` would; or a Gaussian model or
  /// network (.safetensors). `graph`: the folder that `antiphon graph` made for it; "": the bundle's or the folder's.
  Recognizer(const std::string& model, const std::string& graph, const RecognizerSettings& settings);
  // A template, so that a braced list is never taken for a text.
  template <std::convertible_to<std::string> Graph>
  Recognizer(const std::string& model, const Graph& graph) : Recognizer(model, graph, RecognizerSettings()) {}
  /// With the bundle's or the folder's graph.
  Recognizer(const std::string& bundle, const RecognizerSettings& settings) : Recognizer(bundle, "", settings) {}
  explicit Recognizer(const std::string& bundle) : Recognizer(bundle, RecognizerSettings()) {}
  Recognizer(const Recognizer&) = default;
  Recognizer& operator=(const Recognizer&) = default;
  ~Recognizer() = default;

  /// One channel of speech at any rate from 1000 to 384000 Hz and of any length, by one speaker: words, times and
  /// confidences are those of `antiphon decode` with the same settings, bit for bit, for a data directory in which it
  /// is all that the speaker says. It is normalised by its own mean, and a model that is trained for it adapts to it.
  /// Above half a minute it is recognised in pieces, cut in silences, in memory that does not grow unless the model
  /// adapts.
  Recognition Recognize(std::span<const float> samples, int sample_rate_hz,
                        const RecognizeSettings& settings = {}) const;
  /// WAV, FLAC, Ogg …; several channels are averaged, or one is chosen. Dither is that of an utterance with the file's
  /// name.
  Recognition RecognizeFile(const std::string& path, const RecognizeSettings& settings = {}) const;
  /// A whole file's bytes in memory; `name` stands for the file, in dither and errors.
  Recognition RecognizeBytes(std::span<const std::byte> file, const RecognizeSettings& settings = {},
                             const std::string& name = "audio") const;

  /// A stream of speech that is still being said, at any rate from 1000 to 384000 Hz. Needs a network.
  Stream NewStream(int sample_rate_hz, const StreamSettings& settings = {}) const;

  /// A file that `antiphon adapt` made for this model; refused if it was made for another one, or if this model is a
  /// Gaussian one.
  SpeakerProfile LoadProfile(const std::string& file) const;

  /// Memories of speakers as files, which name the model; refused if it is another one.
  SpeakerMemory LoadMemory(const std::string& file) const;
  void SaveMemory(const SpeakerMemory& memory, const std::string& file) const;
  /// Whether the model makes use of memories, if only in streams.
  bool UsesMemory() const;

  /// The words that it can recognise, a word list aside.
  std::vector<std::string> Vocabulary() const;
  /// Of the model: audio at other rates is converted.
  int sample_rate_hz() const;

 private:
  friend struct RecognizerAccess;
  struct Impl;
  explicit Recognizer(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace antiphon
