#include "serve/transcript.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>

#include "base/rounded_seconds.h"
#include "pipeline/transcript.h"

namespace antiphon::serve {
namespace {

using nlohmann::ordered_json;

// From the first word to the end of the last.
std::pair<double, double> SpanOf(const StreamEvent& utterance) {
  if (utterance.words.empty()) return {utterance.start_s, utterance.end_s};
  return {utterance.words.front().start_s, utterance.words.back().end_s};
}

// Of the words whose confidence is known; 0 if there are none.
double MeanLogConfidence(const StreamEvent& utterance) {
  constexpr double kLeastConfidence = 1e-4;
  double sum = 0;
  int known = 0;
  for (const RecognizedWord& word : utterance.words) {
    if (word.confidence < 0) continue;
    sum += std::log(std::clamp(word.confidence, kLeastConfidence, 1.0));
    ++known;
  }
  return known == 0 ? 0.0 : sum / known;
}

// Bytes of a text over those of what zlib makes of it, by which clients notice repetitions.
double CompressionRatio(const std::string& text) {
  uLongf packed_bytes = ::compressBound(text.size());
  std::string packed(packed_bytes, '\0');
  const int status = ::compress(reinterpret_cast<Bytef*>(packed.data()), &packed_bytes,
                                reinterpret_cast<const Bytef*>(text.data()), text.size());
  return status == Z_OK ? static_cast<double>(text.size()) / static_cast<double>(packed_bytes) : 1.0;
}

ordered_json SegmentOf(const StreamEvent& utterance, int id) {
  const auto [start_s, end_s] = SpanOf(utterance);
  return {{"id", id},
          {"seek", 0},
          {"start", RoundedSeconds(start_s)},
          {"end", RoundedSeconds(end_s)},
          {"text", utterance.text},
          {"tokens", ordered_json::array()},
          {"temperature", 0.0},
          {"avg_logprob", MeanLogConfidence(utterance)},
          {"compression_ratio", CompressionRatio(utterance.text)},
          {"no_speech_prob", 0.0}};
}

}  // namespace

std::string Transcript::Text() const {
  std::string text;
  for (const StreamEvent& utterance : utterances) text += (text.empty() ? "" : " ") + utterance.text;
  return text;
}

std::string SrtOf(const Transcript& transcript) {
  std::string out;
  int number = 0;
  for (const StreamEvent& utterance : transcript.utterances) {
    const auto [start_s, end_s] = SpanOf(utterance);
    out += fmt::format("{}\n{} --> {}\n{}\n\n", ++number, pipeline::ClockTime(start_s, ','),
                       pipeline::ClockTime(end_s, ','), utterance.text);
  }
  return out;
}

std::string VttOf(const Transcript& transcript) {
  std::string out = "WEBVTT\n\n";
  for (const StreamEvent& utterance : transcript.utterances) {
    const auto [start_s, end_s] = SpanOf(utterance);
    out += fmt::format("{} --> {}\n{}\n\n", pipeline::ClockTime(start_s, '.'), pipeline::ClockTime(end_s, '.'),
                       pipeline::EscapedForVtt(utterance.text));
  }
  return out;
}

ordered_json VerboseJsonOf(const Transcript& transcript, const VerboseOptions& options) {
  ordered_json json = {{"task", "transcribe"},
                       {"language", options.language},
                       {"duration", RoundedSeconds(transcript.duration_s)},
                       {"text", transcript.Text()}};
  if (options.words) {
    auto words = ordered_json::array();
    for (const StreamEvent& utterance : transcript.utterances) {
      for (const RecognizedWord& word : utterance.words) {
        words.push_back(
            {{"word", word.word}, {"start", RoundedSeconds(word.start_s)}, {"end", RoundedSeconds(word.end_s)}});
        if (word.confidence >= 0) words.back()["confidence"] = word.confidence;
      }
    }
    json["words"] = words;
  }
  if (options.segments) {
    auto segments = ordered_json::array();
    for (const StreamEvent& utterance : transcript.utterances) {
      segments.push_back(SegmentOf(utterance, static_cast<int>(segments.size())));
    }
    json["segments"] = segments;
  }
  if (!transcript.audio_remarks.empty()) json["audio_remarks"] = transcript.audio_remarks;
  return json;
}

}  // namespace antiphon::serve
