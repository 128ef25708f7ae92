// Recognised words in the formats that people take them in: text, subtitles (SRT, WebVTT), CTM, TextGrid, JSON.
//
// Subtitles: lines of at most 42 characters, two together, broken at pauses; what stays on the screen for less than a
// second is shown for that long if nothing follows. A word that is longer than a line has one alone.
//
// Units: seconds from the beginning of the recording; confidences in 0 … 1. Words stand in the order of their times.
// Threads: pure functions. Sources: SubRip's format; W3C, WebVTT; Praat's manual, TextGrid file formats.
#pragma once

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace antiphon::pipeline {

struct TranscriptWord {
  std::string word;
  double start_s = 0.0;
  double end_s = 0.0;
  double confidence = 0.0;
};

/// What was said on one channel of a recording.
struct Transcript {
  std::string name;      // of the recording, and of the channel where it has several
  double seconds = 0.0;  // of the recording
  std::string remark;    // why there are no words, for example; usually empty
  std::vector<TranscriptWord> words;
  std::vector<std::string> audio_remarks = {};  // what is wrong with the sound
};

/// What stands on the screen at one time.
struct Cue {
  double start_s = 0.0;
  double end_s = 0.0;
  std::vector<std::string> lines;  // one or two
};
std::vector<Cue> MakeCues(const std::vector<TranscriptWord>& words);

/// A paragraph per stretch of speech: pauses of a second and more begin a new line.
std::string ToText(const Transcript& transcript);
std::string ToSrt(const Transcript& transcript);
std::string ToVtt(const Transcript& transcript);
std::string ToCtm(const Transcript& transcript);
/// One tier, "words"; what lies between them is empty.
std::string ToTextGrid(const Transcript& transcript);
/// One object: recording, seconds, text, words with times and confidences, remark, audio_remarks.
std::string ToJson(const Transcript& transcript);

/// 01:02:03,456 with the sign that the format has before milliseconds; for times before 0, 0.
std::string ClockTime(double seconds, char sign);
/// Without what would be read as a mark of WebVTT.
std::string EscapedForVtt(const std::string& text);

/// How transcripts of several recordings, or channels, make one document: under headings, one after the other, as a
/// list; or not at all, as the times of each begin anew.
enum class Several { kUnderHeadings, kInTurn, kAsList, kNoDocument };

/// By the name of a file's ending.
struct TranscriptFormat {
  std::string_view ending;  // "srt"
  std::string (*write)(const Transcript& transcript);
  Several several;
};
const std::vector<TranscriptFormat>& TranscriptFormats();
/// UsageError for a format that there is not, naming those that there are.
const TranscriptFormat& FindTranscriptFormat(std::string_view ending);

/// Several transcripts as one document, each written as soon as it is there. Format (not kNoDocument) and stream must
/// outlive it.
class TranscriptList {
 public:
  TranscriptList(const TranscriptFormat& format, std::ostream& out);
  void Add(const Transcript& transcript);
  /// What makes it whole; nothing may be added then.
  void Close();

 private:
  const TranscriptFormat& format_;
  std::ostream& out_;
  bool is_empty_ = true;
};

}  // namespace antiphon::pipeline
