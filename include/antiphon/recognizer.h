// Speech in, words out.
//
//   antiphon::Recognizer recognizer("exp/net/model.safetensors", "exp/graph");
//   std::cout << recognizer.RecognizeFile("call.wav").text << "\n";
//
// Units: samples as floats in −1 … 1; times in seconds; confidences in 0 … 1.
// Threads: a Recognizer may be used by many threads at once; each keeps its own memory.
// Errors: std::runtime_error (antiphon::Error), whose what() reads from what was asked for down to the cause.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "antiphon/speaker_memory.h"
#include "antiphon/speaker_profile.h"

namespace antiphon {

struct RecognizerSettings {
  double beam = 13.0;               // larger: slower, fewer search errors
  double acoustic_scale = 0.0;      // weight of the acoustic model in the search; 0: what the model was trained for
  double lm_weight = 0.0;           // in choosing the result; 0: 1 / that. `antiphon decode --tune` finds it
  double word_penalty = 0.0;        // cost per word in choosing the result
  bool normalize_variance = false;  // as the model's features were made (`norm-vars`), where the model does not say so
  std::string rescore_arpa = {};    // larger n-gram model that replaces the graph's in each lattice
  std::string graph_arpa = {};      // the one that the graph was built with, for rescore_arpa
  std::string adapt_graph = {};     // the Gaussians' own graph, where a chain model's features are adapted by them
  int adapt_passes = 2;             // that give a recording's speaker a transform, if the model is trained for them
};

struct RecognizedWord {
  std::string word;
  double start_s = 0.0;
  double end_s = 0.0;
  double confidence = 0.0;
};

struct Recognition {
  std::string text;  // the words, with blanks between
  std::vector<RecognizedWord> words;
  std::string remark;  // why there are no words, for example; usually empty
};

class Recognizer {
 public:
  /// `model`: a Gaussian model or network (.safetensors); `graph`: the folder that `antiphon graph` made for it.
  Recognizer(const std::string& model, const std::string& graph, const RecognizerSettings& settings = {});
  ~Recognizer();
  Recognizer(Recognizer&&) noexcept;
  Recognizer& operator=(Recognizer&&) noexcept;

  /// A file that `antiphon adapt` made for this model; refused if it was made for another one, or if this model is a
  /// Gaussian one.
  SpeakerProfile LoadProfile(const std::string& file) const;

  /// Memories of speakers as files, which name the model; refused if it is another one.
  SpeakerMemory LoadMemory(const std::string& file) const;
  void SaveMemory(const SpeakerMemory& memory, const std::string& file) const;

  /// One channel of speech at any rate and of any length, by one speaker: words, times and confidences are those of
  /// `antiphon decode` with the same settings, bit for bit, for a data directory in which it is all that the speaker
  /// says. It is normalised by its own mean, and a model that is trained for it adapts to it. Above half a minute it is
  /// recognised in pieces, cut in silences, in memory that does not grow unless the model adapts. `profile`: the
  /// speaker's, from LoadProfile of this Recognizer. `memory`: what the speaker said before, to which this is added;
  /// null: nothing is known or kept.
  Recognition Recognize(std::span<const float> samples, int sample_rate_hz, const SpeakerProfile& profile = {},
                        SpeakerMemory* memory = nullptr) const;
  /// WAV, FLAC, Ogg …; several channels are averaged. Dither is that of an utterance with the file's name.
  Recognition RecognizeFile(const std::string& path, const SpeakerProfile& profile = {},
                            SpeakerMemory* memory = nullptr) const;

  /// The words that it can recognise.
  std::vector<std::string> Vocabulary() const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace antiphon
