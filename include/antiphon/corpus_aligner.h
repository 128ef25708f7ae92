// Aligns a corpus: all that `antiphon align` does, by the same code. Transcribed speech goes in; when each word and
// phone was said comes out as files, and, without a model to align by, a Gaussian model that was trained for it.
//
//   antiphon::CorpusAlignerSettings settings;
//   settings.model = "mine.antiphon", settings.data = "recordings/", settings.out = "exp/times";
//   settings.config = "files = ['TextGrid', 'json']";
//   const antiphon::CorpusAligner aligner(settings);
//   if (aligner.Check().fine()) std::cout << aligner.Run().words_file << "\n";
//
// One recording and its text, without files: Aligner (antiphon/aligner.h). Where a recording is all that its speaker
// says, words and times are the same, to the frame.
//
// Units: seconds; log-likelihoods in nats per frame.
// Ownership: values; copies share what they were made with, and moving one copies it.
// Threads: a call uses CorpusAlignerSettings::threads of its own; one Run at a time per folder (out).
// Errors: antiphon::Error (antiphon/error.h), naming file or utterance: kUsage for settings that cannot be, kInput for
// a model, a lexicon or data that are damaged or do not fit, kIo, kCancelled, kMemory. What single utterances lack is
// no error: the outcome tells it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "antiphon/cancel.h"
#include "antiphon/export.h"

namespace antiphon {

struct CorpusAlignerSettings {
  std::string data = {};         // folder with text, utt2spk and feats.scp; a data directory; or audio: file or folder
  std::string model = {};        // to align by; "": mixtures are trained from a flat start
  std::string lexicon = {};      // WORD PHONE … per line; "": the bundle's
  std::string transcripts = {};  // table of the words of audio; "": .txt, .lab or .TextGrid files beside it
  std::string g2p = {};          // what `antiphon g2p train` made, for words that the lexicon lacks; "": the bundle's
  std::string out = {};          // folder: words.ctm, phones.ctm, ali.scp, pdf.scp, scores.tsv, report.json …
  std::string config = {};       // TOML: all options of `antiphon align`; what is set above holds against it
  uint64_t seed = 1;
  int threads = 0;  // 0: all cores
  CancelToken cancel = {};
};

/// What somebody should know of a part of the corpus.
struct CorpusRemark {
  std::string where;  // utterance, file, or file:line
  std::string what;
  bool fatal = false;  // of CorpusCheck: nothing can be aligned before it is repaired

  bool operator==(const CorpusRemark&) const = default;
};

/// A word without pronunciation.
struct UnknownWord {
  std::string word;
  int64_t count = 0;

  bool operator==(const UnknownWord&) const = default;
};

struct AlignmentOutcome {
  int64_t utterances = 0;
  int64_t aligned = 0;  // of these
  double frames = 0.0;  // aligned
  double log_likelihood = 0.0;
  double time_step_s = 0.0;  // of words and phones
  double wall_s = 0.0;
  bool partial = false;                    // audio was given, and some of it or of its texts got no alignment
  std::vector<CorpusRemark> left_out;      // files, texts and utterances that nothing could be tried with
  std::vector<CorpusRemark> skipped;       // utterances that were tried and got no alignment
  std::vector<CorpusRemark> suspicious;    // utterances that may not say their text, with the place to listen to
  std::vector<UnknownWord> unknown_words;  // in the order of the words
  std::string model_file;                  // of a training; else ""
  std::string words_file;                  // words.ctm
  std::string phones_file;                 // phones.ctm
  std::string report_file;                 // report.txt
  std::string report;                      // as report.json: one JSON object
};

struct CorpusCheck {
  int64_t utterances = 0;
  double speech_s = 0.0;
  std::vector<CorpusRemark> problems;      // most serious first
  std::vector<UnknownWord> unknown_words;  // most frequent first
  int64_t pronounced = 0;                  // words that the lexicon lacks and the g2p model pronounces
  std::string text;                        // all of it for a person, several lines
  std::string report;                      // all of it: one JSON object

  bool fine() const { return problems.empty() && unknown_words.empty(); }
};

class ANTIPHON_API CorpusAligner {
 public:
  /// Refuses options that there are not, values that they cannot have, and a model file that is not whole; Run and
  /// Check refuse the rest.
  explicit CorpusAligner(const CorpusAlignerSettings& settings);
  CorpusAligner(const CorpusAligner&) = default;
  CorpusAligner& operator=(const CorpusAligner&) = default;
  ~CorpusAligner() = default;

  /// All of it, from reading to report.json. What it has to say goes to the log, too.
  AlignmentOutcome Run() const;
  /// Whether audio, transcripts and lexicon fit together, as `antiphon align --validate` looks at it; writes no files.
  CorpusCheck Check() const;

 private:
  friend struct CorpusAlignerAccess;
  struct Impl;
  explicit CorpusAligner(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace antiphon
