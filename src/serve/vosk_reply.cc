#include "serve/vosk_reply.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/printed_json.h"
#include "base/rounded_seconds.h"

namespace antiphon::serve {
namespace {

using nlohmann::ordered_json;

// As Vosk's server lays it out.
std::string Print(const ordered_json& json) { return PrintedJson(json, 2); }

ordered_json WordsOf(const StreamEvent& event, bool confidences) {
  auto words = ordered_json::array();
  for (const RecognizedWord& word : event.words) {
    ordered_json entry;
    if (confidences) entry["conf"] = word.confidence >= 0 ? word.confidence : 1.0;
    entry["end"] = RoundedSeconds(word.end_s);
    entry["start"] = RoundedSeconds(word.start_s);
    entry["word"] = word.word;
    words.push_back(std::move(entry));
  }
  return words;
}

void Append(std::string& text, const std::string& more) { text += (text.empty() || more.empty() ? "" : " ") + more; }

StreamEvent Together(std::span<const StreamEvent> events) {
  StreamEvent all;
  for (const StreamEvent& event : events) {
    if (!event.final) continue;
    Append(all.text, event.text);
    all.words.insert(all.words.end(), event.words.begin(), event.words.end());
    // Of several utterances in one reply, alternatives are those of the last one that has any.
    if (!event.nbest.empty()) all.nbest = event.nbest;
  }
  return all;
}

std::string Partial(const StreamEvent& event, const VoskConfig& config) {
  ordered_json reply = {{"partial", event.text}};
  if (config.partial_words && !event.words.empty()) reply["partial_result"] = WordsOf(event, false);
  return Print(reply);
}

std::string Result(const StreamEvent& event, const VoskConfig& config) {
  ordered_json reply;
  if (config.words && !event.words.empty()) reply["result"] = WordsOf(event, true);
  reply["text"] = event.text;
  return Print(reply);
}

std::string Alternatives(const StreamEvent& event, const VoskConfig& config) {
  auto alternatives = ordered_json::array();
  for (const Hypothesis& hypothesis : event.nbest) {
    ordered_json entry = {{"confidence", -hypothesis.cost}};
    if (config.words && alternatives.empty() && !event.words.empty()) entry["result"] = WordsOf(event, false);
    entry["text"] = alternatives.empty() ? event.text : hypothesis.text;
    alternatives.push_back(std::move(entry));
  }
  if (alternatives.empty()) alternatives.push_back({{"confidence", 1.0}, {"text", event.text}});
  return Print({{"alternatives", alternatives}});
}

}  // namespace

std::string VoskReply(std::span<const StreamEvent> events, bool end, const VoskConfig& config, StreamEvent& so_far) {
  const bool final = end || std::any_of(events.begin(), events.end(), [](const StreamEvent& e) { return e.final; });
  if (!events.empty()) so_far = events.back().final ? StreamEvent() : events.back();
  if (!final) return Partial(so_far, config);
  const StreamEvent all = Together(events);
  return config.max_alternatives > 0 ? Alternatives(all, config) : Result(all, config);
}

}  // namespace antiphon::serve
