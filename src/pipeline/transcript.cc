#include "pipeline/transcript.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>

#include "base/check.h"
#include "base/error.h"
#include "base/rounded_seconds.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "data/audio_files.h"
#include "data/text_grid.h"
#include "data/text_table.h"

namespace antiphon::pipeline {
namespace {

using Words = std::span<const TranscriptWord>;

constexpr size_t kLineColumns = 42;
constexpr double kLongestCue = 7.0, kShortestCue = 1.0;
constexpr double kSentencePause = 0.7;   // ends a cue
constexpr double kParagraphPause = 1.0;  // begins a line of text

std::string Joined(Words words) {
  std::string text;
  for (const TranscriptWord& word : words) text += (text.empty() ? "" : " ") + word.word;
  return text;
}

size_t Columns(Words words) { return DisplayColumns(Joined(words)); }

// Before word i.
double PauseBefore(Words words, size_t i) { return words[i].start_s - words[i - 1].end_s; }

// How many words stand on the first of two lines so that the longer one is as short as may be; all of them if one line
// holds them, none if two lines do not.
size_t FirstLine(Words words) {
  if (Columns(words) <= kLineColumns) return words.size();
  size_t best = 0, shortest = kLineColumns + 1;
  for (size_t first = 1; first < words.size(); ++first) {
    const size_t longer = std::max(Columns(words.first(first)), Columns(words.subspan(first)));
    if (longer < shortest) best = first, shortest = longer;
  }
  return best;
}

bool FitsACue(Words words) {
  return words.size() == 1 || (words.back().end_s - words.front().start_s <= kLongestCue && FirstLine(words) > 0);
}

// Words of the first cue: up to a pause, or as many as fit, and then back to the longest pause in their second half.
size_t FirstCue(Words words) {
  size_t count = 1;
  while (count < words.size() && PauseBefore(words, count) < kSentencePause && FitsACue(words.first(count + 1)))
    ++count;
  if (count == words.size() || PauseBefore(words, count) >= kSentencePause) return count;
  size_t best = count;
  for (size_t i = count; 2 * i > count && i > 0; --i) {
    if (PauseBefore(words, i) > PauseBefore(words, best)) best = i;
  }
  return best;
}

}  // namespace

std::string ClockTime(double seconds, char sign) {
  const auto ms = static_cast<int64_t>(std::llround(std::max(0.0, seconds) * 1000));
  return fmt::format("{:02}:{:02}:{:02}{}{:03}", ms / 3600000, ms / 60000 % 60, ms / 1000 % 60, sign, ms % 1000);
}

std::string EscapedForVtt(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::vector<Cue> MakeCues(const std::vector<TranscriptWord>& words) {
  std::vector<Cue> cues;
  for (Words left = words; !left.empty();) {
    const Words said = left.first(FirstCue(left));
    left = left.subspan(said.size());
    Cue cue{said.front().start_s, said.back().end_s, {}};
    const double free_until = left.empty() ? cue.start_s + kShortestCue : left.front().start_s;
    cue.end_s = std::max(cue.end_s, std::min(cue.start_s + kShortestCue, free_until));
    const size_t first = FirstLine(said);
    cue.lines.push_back(Joined(said.first(first == 0 ? said.size() : first)));
    if (first > 0 && first < said.size()) cue.lines.push_back(Joined(said.subspan(first)));
    cues.push_back(std::move(cue));
  }
  return cues;
}

std::string ToText(const Transcript& transcript) {
  std::string text;
  for (size_t i = 0; i < transcript.words.size(); ++i) {
    if (i > 0) text += PauseBefore(transcript.words, i) >= kParagraphPause ? "\n" : " ";
    text += transcript.words[i].word;
  }
  return text.empty() ? text : text + "\n";
}

std::string ToSrt(const Transcript& transcript) {
  std::string text;
  int number = 0;
  for (const Cue& cue : MakeCues(transcript.words)) {
    text += fmt::format("{}\n{} --> {}\n", ++number, ClockTime(cue.start_s, ','), ClockTime(cue.end_s, ','));
    for (const std::string& line : cue.lines) text += line + "\n";
    text += "\n";
  }
  return text;
}

std::string ToVtt(const Transcript& transcript) {
  std::string text = "WEBVTT\n\n";
  for (const Cue& cue : MakeCues(transcript.words)) {
    text += fmt::format("{} --> {}\n", ClockTime(cue.start_s, '.'), ClockTime(cue.end_s, '.'));
    for (const std::string& line : cue.lines) text += EscapedForVtt(line) + "\n";
    text += "\n";
  }
  return text;
}

std::string ToCtm(const Transcript& transcript) {
  const std::string name = data::CleanId(transcript.name);
  std::string text;
  for (const TranscriptWord& word : transcript.words) {
    // What is written may have blanks ("3 million"), fields may not.
    const std::vector<std::string> parts = data::SplitWords(word.word);
    const double part_s = (word.end_s - word.start_s) / std::max(1.0, static_cast<double>(parts.size()));
    double start_s = word.start_s;
    for (const std::string& part : parts) {
      text += fmt::format("{} 1 {:.2f} {:.2f} {} {:.2f}\n", name, start_s, part_s, part, word.confidence);
      start_s += part_s;
    }
  }
  return text;
}

std::string ToTextGrid(const Transcript& transcript) {
  data::IntervalTier tier{"words", {}};
  for (const TranscriptWord& word : transcript.words) tier.intervals.push_back({word.start_s, word.end_s, word.word});
  return data::TextGrid({tier}, transcript.seconds);
}

std::string ToJson(const Transcript& transcript) {
  nlohmann::ordered_json json = {{"recording", transcript.name},
                                 {"seconds", RoundedSeconds(transcript.seconds)},
                                 {"text", Joined(transcript.words)},
                                 {"words", nlohmann::json::array()}};
  for (const TranscriptWord& word : transcript.words) {
    json["words"].push_back({{"word", word.word},
                             {"start", RoundedSeconds(word.start_s)},
                             {"end", RoundedSeconds(word.end_s)},
                             {"confidence", word.confidence}});
  }
  if (!transcript.remark.empty()) json["remark"] = transcript.remark;
  if (!transcript.audio_remarks.empty()) json["audio_remarks"] = transcript.audio_remarks;
  return json.dump(2) + "\n";
}

const std::vector<TranscriptFormat>& TranscriptFormats() {
  static const std::vector<TranscriptFormat> formats = {
      {"text", ToText, Several::kUnderHeadings}, {"srt", ToSrt, Several::kNoDocument},
      {"vtt", ToVtt, Several::kNoDocument},      {"json", ToJson, Several::kAsList},
      {"ctm", ToCtm, Several::kInTurn},          {"TextGrid", ToTextGrid, Several::kNoDocument}};
  return formats;
}

const TranscriptFormat& FindTranscriptFormat(std::string_view ending) {
  std::vector<std::string> known;
  for (const TranscriptFormat& format : TranscriptFormats()) {
    if (FoldCase(format.ending) == FoldCase(ending)) return format;
    known.emplace_back(format.ending);
  }
  throw UsageError(UnknownNameMessage("format of a transcript", std::string(ending), known));
}

TranscriptList::TranscriptList(const TranscriptFormat& format, std::ostream& out) : format_(format), out_(out) {
  CHECK(format.several != Several::kNoDocument) << format.ending;
}

void TranscriptList::Add(const Transcript& transcript) {
  std::string text = format_.write(transcript);
  if (format_.several == Several::kUnderHeadings) out_ << "== " << transcript.name << "\n";
  if (format_.several == Several::kAsList) {
    while (text.ends_with('\n')) text.pop_back();
    out_ << (is_empty_ ? "[\n" : ",\n");
  }
  out_ << text << std::flush;
  is_empty_ = false;
}

void TranscriptList::Close() {
  if (format_.several == Several::kAsList) out_ << (is_empty_ ? "[]\n" : "\n]\n") << std::flush;
}

}  // namespace antiphon::pipeline
