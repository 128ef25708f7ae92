// Recognises a corpus: all that `antiphon decode` does, by the same code. A data directory, audio files or tables of
// features go in; words, times, confidences, n-best lists, lattices and error rates come out as files.
//
//   antiphon::CorpusDecoderSettings settings;
//   settings.model = "mine.antiphon", settings.data = "data/test", settings.out = "exp/decode";
//   settings.config = "beam = 15\nnbest = 10\nnnet.precision = 'int8'";
//   const antiphon::DecodingOutcome outcome = antiphon::CorpusDecoder(settings).Run();
//   if (outcome.errors) std::cout << 100 * outcome.errors->rate << " % of the words are wrong\n";
//
// The words of one recording, without files: Recognizer (antiphon/recognizer.h). Where a recording is all that its
// speaker says, words, times and confidences are the same, bit for bit.
//
// Units: seconds; rates as shares of words, 0 … 1 and above.
// Ownership: values; copies share what they were made with, and moving one copies it.
// Threads: a call uses CorpusDecoderSettings::threads of its own; one Run at a time per folder (out).
// Errors: antiphon::Error (antiphon/error.h), naming file or utterance: kUsage for settings that cannot be, kInput for
// a model, a graph or data that are damaged or do not fit, kIo, kCancelled, kMemory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "antiphon/cancel.h"
#include "antiphon/export.h"

namespace antiphon {

struct CorpusDecoderSettings {
  std::string model = {};    // what `antiphon bundle` made, a recipe's folder, or a model file
  std::string graph = {};    // folder that `antiphon graph` made for it; "": the bundle's or the folder's
  std::string data = {};     // data directory, whose text, if there, is the reference; or audio: a file or a folder
  std::string out = {};      // folder: text, words.ctm, phones.ctm, results.jsonl, lattices.gz, summary.json …
  std::string weights = {};  // weights.toml of a run with `tune` on a development set
  bool tune = false;         // choose weights on these data, measure their contrast, and write weights.toml
  std::string config = {};   // TOML: all options of `antiphon decode`; what is set above holds against it
  uint64_t seed = 1;         // of the error rate's interval
  int threads = 0;           // 0: all cores
  CancelToken cancel = {};
};

/// Against what the data's transcripts say.
struct WordErrors {
  int64_t utterances = 0;
  int64_t wrong_utterances = 0;
  int64_t words = 0;  // of the transcripts
  int64_t substitutions = 0;
  int64_t deletions = 0;
  int64_t insertions = 0;
  double rate = 0.0;          // errors per word of the transcripts
  double interval_low = 0.0;  // within which it lies with 95 %, by drawing utterances again and again
  double interval_high = 0.0;

  bool operator==(const WordErrors&) const = default;
};

/// What a decoding with `tune` chose.
struct TunedWeights {
  double lm_weight = 0.0;
  double word_penalty = 0.0;
  double risk_scale = 0.0;
  double error_rate = 0.0;  // with them, on these data
  std::string file;         // weights.toml, for CorpusDecoderSettings::weights
};

struct DecodingOutcome {
  int64_t utterances = 0;
  double speech_s = 0.0;
  double cpu_s = 0.0;  // of all threads together
  double wall_s = 0.0;
  double real_time_factor = 0.0;  // seconds of CPU time per second of speech
  double lm_weight = 0.0;         // by which the results were chosen, as are
  double word_penalty = 0.0;
  double risk_scale = 0.0;
  double output_share = 1.0;          // of the network's outputs that were computed (nnet.lazy)
  int64_t speaker_transforms = 0;     // that a model which adapts to speakers took
  std::optional<WordErrors> errors;   // without transcripts of these utterances: none
  std::optional<TunedWeights> tuned;  // without `tune`: none
  std::string text_file;              // UTTERANCE WORD …
  std::string results_file;           // results.jsonl: words, times, confidences, n-best, a line per utterance
  std::string summary_file;           // summary.json
  std::string summary;                // its content: one JSON object
};

class ANTIPHON_API CorpusDecoder {
 public:
  /// Refuses options that there are not, values that they cannot have, and a model file that is not whole; Run refuses
  /// the rest.
  explicit CorpusDecoder(const CorpusDecoderSettings& settings);
  CorpusDecoder(const CorpusDecoder&) = default;
  CorpusDecoder& operator=(const CorpusDecoder&) = default;
  ~CorpusDecoder() = default;

  /// All of it, from reading to summary.json. What it has to say goes to the log, too.
  DecodingOutcome Run() const;

 private:
  friend struct CorpusDecoderAccess;
  struct Impl;
  explicit CorpusDecoder(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace antiphon
